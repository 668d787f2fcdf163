"""What models answer, pure: the calls in a reply of a model's API, and the messages to append.

One module for each API; what they have in common is here too. No I/O, and nothing of HTTP.
"""
