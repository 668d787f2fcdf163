"""Sessions of tenants or users with a server, beside the one that discovers what it offers.

What a caller's values are filled in with does not live here.
"""
