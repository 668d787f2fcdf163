"""The composition root: the only package that builds objects from the settings, each once."""
