"""Idempotency keys: a call that is sent again has the first one's outcome, and is made once.

What is kept of calls, and where. Nothing here knows how a call is made.
"""
