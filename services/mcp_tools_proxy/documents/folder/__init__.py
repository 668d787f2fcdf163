"""Documents kept as JSON files in one folder (contract §5).

A start lists names, sizes and times. What a file holds is scanned once, kept in ``cache_dir``,
and read again only when the file has changed.
"""
