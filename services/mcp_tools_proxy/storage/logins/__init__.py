"""Stored logins, and sign-ins that are not finished: sealed, each login bound to its owner.

Logins are in files or in PostgreSQL, sign-ins in memory, Redis or PostgreSQL.

How somebody signs in and how tokens are renewed is not here, nor does a store see a token: it keeps
what ``LoginSealer`` has sealed. Nothing of ``documents`` is imported; PostgreSQL is reached by the
transactions that the composition root passes.
"""
