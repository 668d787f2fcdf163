"""Watching and writing files."""
