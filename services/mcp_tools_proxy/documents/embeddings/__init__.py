"""Search by meaning: vectors of texts, made by a service that the operator names, and kept.

What needs numpy is imported only where there is such a service. Nothing here knows tools or
callers: a text that is sent has no tenant, user or document with it.
"""
