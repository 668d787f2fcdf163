"""Wire formats: text, JSON, content blocks, identifiers and URIs. Pure functions, no I/O."""
