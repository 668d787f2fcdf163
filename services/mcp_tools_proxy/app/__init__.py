"""The composition root: builds every object once, from the settings."""
