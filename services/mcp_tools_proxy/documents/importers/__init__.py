"""Importers: build documents from PDF, Markdown, plain text, DOCX, HTML and CSV files.

Each parsing library has one module, the only one that imports it; ``kinds`` chooses by suffix. This
package does not write files. Parsing runs in a separate process (``import_process``), the only one
that loads the libraries; those of the extras ``ocr`` and ``formats`` are loaded when needed.
"""
