"""The lock of definitions: its file, and what of it is in force."""
