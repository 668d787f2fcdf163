"""A small reference Retrieval Service: the chunk-window endpoint over a folder of documents.

Both it and the gateway read the same document files and cut chunks by the same code, so their chunk
ids agree. README.md here is the HTTP contract for services that replace it.
"""
