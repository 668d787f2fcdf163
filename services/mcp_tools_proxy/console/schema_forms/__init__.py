"""Forms made from JSON Schema, pure: a schema and a draft become fields, sent fields a draft.

The names of fields hold the place and the kind of each value, so a draft is read without the
schema: nothing typed is lost where a server changes its tool meanwhile.
"""
