"""A small reference Retrieval Service: the chunk-window endpoint over a folder of documents.

It shares the document file format and the cutting of chunks with the gateway, so that their chunk
ids agree, and nothing else of it. README.md here is the HTTP contract for a service in its place.
"""
