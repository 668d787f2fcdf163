"""Domain types: frozen values, errors, and protocols that other packages implement.

Only the standard library, and no I/O. Every package can import from here; modules here import from
no other package.
"""
