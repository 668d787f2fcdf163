"""The rules: pure functions over the domain, without I/O, clock or state.

Results depend only on the arguments.
"""
