"""Pages of documents as images, rendered from the PDF that a document was imported from."""
