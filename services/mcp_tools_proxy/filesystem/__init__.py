"""Watching files for changes."""
