"""Builds the console; apart from ``app``, since its imports are slow."""
