"""Runs: sequences of calls for one task, what they read and did, and where values came from."""
