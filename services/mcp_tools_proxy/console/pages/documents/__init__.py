"""The documents of tenants: list, read, search, verify, upload, open to readers and remove."""
