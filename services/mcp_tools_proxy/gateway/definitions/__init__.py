"""Definitions that are pinned: what is quarantined, how it is shown, and how it is accepted."""
