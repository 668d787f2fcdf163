"""The rules: pure functions over the domain.

An answer here follows from the arguments alone: no I/O, no clock, no state.
"""
