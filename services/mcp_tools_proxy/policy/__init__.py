"""The rules: pure functions over the domain.

A result follows from the arguments alone: no I/O, no clock, no state.
"""
