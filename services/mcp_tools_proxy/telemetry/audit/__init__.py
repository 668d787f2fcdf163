"""The audit: one record for every attempt, written to the log or to a file of its own.

``AuditTrail`` takes the records of all entries. ``AuditFile`` writes them, with a chain of
signatures if there is a key; ``verification`` checks such files, and ``record_search`` finds
records in them. What a record says is decided where it is made, in ``telemetry``.
"""
