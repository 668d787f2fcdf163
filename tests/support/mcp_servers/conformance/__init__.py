"""The conformance suite's expected server: its names and answers, in both eras.

A tool's requests to its caller are defined once, as a round of the modern era; over the legacy era
the server sends the same requests.
"""
