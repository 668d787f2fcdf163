"""Persistent state: files, Redis, encrypted records, idempotency records, logins and runs.

``idempotency`` stores calls with a key and their outcomes; ``logins`` stores logins to servers and
unfinished sign-ins; ``runs`` stores the memory of runs. The other modules are independent of the
stored data.
"""
