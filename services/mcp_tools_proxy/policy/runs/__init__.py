"""Runs: sequences of calls for one task, their facts, and the origins of values."""
