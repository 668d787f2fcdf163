"""What stores outside of the process's memory are made of: files, Redis, encrypted records.

Nothing here knows what is stored.
"""
