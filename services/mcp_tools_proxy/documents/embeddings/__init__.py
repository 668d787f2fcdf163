"""Search by meaning: text vectors from a configured embeddings service, and their storage.

Modules that need numpy are imported only if a service is configured. Texts are sent without tenant,
user or document.
"""
