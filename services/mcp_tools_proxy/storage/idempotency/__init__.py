"""Idempotency keys: a repeated call returns the outcome of the first and is not made again.

Contains the records of calls and their stores, but not the execution of calls.
"""
