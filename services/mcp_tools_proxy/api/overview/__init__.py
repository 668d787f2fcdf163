"""How this replica is, what was called, and what needs a person."""
