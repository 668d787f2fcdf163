"""Settings: read from the environment and validated at the start.

The docstrings of the fields are users' texts: the reference of settings is built from them.
"""
