"""Search quality: questions over public manuals, whose pages were fixed before any search.

``tuning.json`` is what constants may be tuned on. ``held_out.json`` is run at the end only: whoever
tunes on it has nothing left to measure with. The manuals' texts are fetched, never committed.
"""
