"""Importers: build documents from PDF, text, web pages, office files, mail and pictures.

Each parsing library is imported by one module only; ``file_kind`` finds the kind by content. This
package writes no files. Parsing runs in a separate process (``import_process``), the only one that
loads the libraries; those of the extras ``ocr`` and ``formats`` are loaded when needed.
"""
