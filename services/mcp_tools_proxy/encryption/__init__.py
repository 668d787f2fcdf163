"""Encryption of what is kept outside of the process, where others may read it."""
