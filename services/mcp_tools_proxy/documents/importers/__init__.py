"""Importers: build documents from PDF, Markdown, plain text, DOCX, HTML and CSV files.

Each parsing library is imported by one module only; ``kinds`` chooses by suffix. This package
writes no files. Parsing runs in a separate process (``import_process``), the only one that loads
the libraries; those of the extras ``ocr`` and ``formats`` are loaded when needed.
"""
