"""Chunk windows, read from a Retrieval Service or from the documents of this process."""
