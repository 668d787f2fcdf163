"""Stored logins: sealed, each bound to its owner, in files or in PostgreSQL.

How somebody signs in and how tokens are renewed is not here, nor does a store see a token: it keeps
what ``LoginSealer`` has sealed. Nothing of ``documents`` is imported; PostgreSQL is reached by the
transactions that the composition root passes.
"""
