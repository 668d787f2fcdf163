"""Stores of runs: one memory per run, changed atomically, and a mark of each run that ended."""
