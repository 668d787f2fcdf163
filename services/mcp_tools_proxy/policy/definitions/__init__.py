"""Definitions of items: canonical form, suspicious contents, and comparison with the lock."""
