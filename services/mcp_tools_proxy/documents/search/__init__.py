"""Full-text search in one document, in memory, and across the documents of a tenant, on disk.

The engine (tantivy) matches and scores; what counts how much is decided here. Words, languages and
snippets are the same for both. The ``tenant_`` modules keep an index for each tenant, which says
which documents are worth reading; the repository decides what a caller may read.
"""
