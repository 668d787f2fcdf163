"""Full-text search across the documents of a tenant: an index of its own for each, on disk.

Words, languages and snippets are those of ``documents.search``. What a caller may read is decided
by the repository; an index only knows which documents need not be tried.
"""
