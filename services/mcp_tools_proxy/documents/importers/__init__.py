"""Importers: build documents from PDF, Markdown and plain text files.

One module for each kind of file, the only one that imports its library; ``kinds`` chooses by suffix
and reads the file. Nothing is written here. Only the command line imports this package: the service
does not need these libraries to run.
"""
