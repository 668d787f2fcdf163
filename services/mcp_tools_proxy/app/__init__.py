"""The composition root: the only package that builds the objects, each once, from the settings."""
