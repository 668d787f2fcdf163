"""The audit: one record for each attempt, written to the log or to a separate file.

``AuditFile`` writes the records of ``AuditTrail``, signed if a key is set; ``verification`` checks
such files, and ``record_search`` searches them. ``telemetry`` defines the contents of records.
"""
