"""Budgets: what is charged to them, the rules that make them, and what callers see of them."""
