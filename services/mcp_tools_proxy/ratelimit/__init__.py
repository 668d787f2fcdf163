"""Budgets of calls and tokens for a tenant and for each of its documents (T-08 … T-10).

A thin adapter over the ``limits`` library, which does the counting. This package adds the keys, the
order of charges, the memory storage, and the fail-over from Redis to it.
"""
