"""Settings: read from the environment, checked at the start."""
