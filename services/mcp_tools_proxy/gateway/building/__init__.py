"""Builds registries: the one in force, and those that operators look at before a switch."""
