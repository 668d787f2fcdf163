"""The rules: pure functions over the domain, without I/O, clock or state."""
