"""Documents as JSON files in one folder (contract §5).

A start lists names, sizes and times. Each file is scanned once; its scan is kept in ``cache_dir``
until the file changes.
"""
