"""Making documents from other people's files: PDF, Markdown, plain text.

One module for each kind of file, and the only place that imports its library; ``kinds`` chooses by
suffix. A file goes in as bytes, a document comes out, nothing is read or written here. Only the
command line imports this room: the service does not need these libraries to run.
"""
