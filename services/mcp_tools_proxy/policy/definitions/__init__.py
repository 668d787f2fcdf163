"""Definitions of items: their canonical form, what is suspicious in them, and the lock."""
