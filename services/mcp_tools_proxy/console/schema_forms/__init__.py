"""Forms generated from JSON Schema, without I/O.

Field names encode the path and kind of each value, so a draft is read without the schema. Nothing
typed is lost if the server changes its tool in between.
"""
