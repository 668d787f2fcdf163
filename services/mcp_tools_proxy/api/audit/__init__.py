"""Who called what and why not: the records of attempts, and what would happen to a call."""
