"""Builds by what users sign in to servers; apart from ``app``, since its imports are slow."""
