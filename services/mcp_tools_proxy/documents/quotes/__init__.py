"""Quotes: whether a document has them word for word, or what stands there that is like them.

All of it is pure and works on one document; who may read it was checked before.
"""
