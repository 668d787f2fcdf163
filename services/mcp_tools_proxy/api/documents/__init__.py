"""The routes that look after documents: list, read, put, remove, and who may read."""
