"""Stores of encrypted logins and of unfinished sign-ins; each login is bound to its owner.

Logins are in files or PostgreSQL; sign-ins are in memory, Redis or PostgreSQL. Sign-in and token
renewal are elsewhere. This package imports nothing from ``documents``; the composition root passes
the transactions of PostgreSQL.
"""
