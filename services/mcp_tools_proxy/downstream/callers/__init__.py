"""What of a caller, and which of its secrets, a server is given: values encoded for their place."""
