"""Policies in Cedar over a call and its run."""
