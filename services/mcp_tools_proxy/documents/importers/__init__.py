"""Importers: build documents from PDF, Markdown, plain text, DOCX, HTML and CSV files.

One module for each library that parses, the only one that imports it; ``kinds`` chooses by suffix.
Nothing is written here. Files are parsed in a process of their own (``import_process``), which
alone loads these libraries; those of the extras ``ocr`` and ``formats`` when a file needs them.
"""
