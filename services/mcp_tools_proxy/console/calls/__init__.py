"""The records of calls, as the pages show them: found in the audit, or as they come."""
