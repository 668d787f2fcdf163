"""Operators try tools as somebody else."""
