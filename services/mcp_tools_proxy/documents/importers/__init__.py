"""Making documents from other people's files: PDF, Markdown, plain text.

One module for each kind of file, and the only place that imports its library; ``kinds`` chooses by
suffix and reads the file. A document comes out, nothing is written here. Only the command line
imports this room: the service does not need these libraries to run.
"""
