"""The server that the public conformance suite expects: its names and answers, in both eras.

What a tool asks its caller is written once, as a round of the modern era; over the legacy one
the server asks the same by itself.
"""
