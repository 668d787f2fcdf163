"""The audit: one record for each attempt, written to the log or to a separate file.

``AuditTrail`` receives all records. ``AuditFile`` writes them, with a chain of signatures if a key
is set; ``verification`` checks such files, and ``record_search`` searches them. The contents of
records are defined in ``telemetry``.
"""
