"""Persistent state: files, Redis, encrypted records, idempotency records and logins.

``idempotency`` stores calls with a key and their outcomes; ``logins`` stores logins to servers and
unfinished sign-ins. The other modules are independent of the stored data.
"""
