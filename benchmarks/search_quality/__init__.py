"""Search quality: questions about public manuals, with answer pages chosen before any search.

Constants may be tuned on ``tuning.json``. ``held_out.json`` is only for the final run, because
tuning on it would invalidate the measurement. The manuals' texts are downloaded, not committed.
"""
