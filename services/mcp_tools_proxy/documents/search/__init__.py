"""Full-text search in one document: words and their languages, the index, ranks, snippets.

The engine (tantivy) matches and scores; what counts how much is decided here. Nothing here knows
tenants, tools or stores.
"""
