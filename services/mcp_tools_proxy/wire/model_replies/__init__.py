"""Model replies, pure: the calls in a reply of a model's API, and the messages to append.

One module for each API, and their common parts.
"""
