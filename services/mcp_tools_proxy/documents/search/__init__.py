"""Full-text search: in one document, in memory, and across a tenant's documents, on disk.

The engine (tantivy) matches and scores; this package sets the weights. Both searches share words,
languages and snippets. The ``tenant_`` modules keep one index per tenant to find documents; the
repository decides whether the caller can read them.
"""
