"""Which resources of a server are subscribed to, and by whom."""
