"""How long a test waits for what has to come."""

BOUND_S = 300.0
"""Seconds after which a wait counts as a hang: over ten times what the longest takes alone.

A wait ends by what it waits for, and no test fails because the machine is busy. How soon the
program does a thing is measured by ``make bench``, or shown with a clock that the test moves.
"""
