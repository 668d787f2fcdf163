"""The nouns: frozen value types and the error tree.

Standard library only, no I/O, nothing async. Everything else may import from here; nothing here
imports from another room.
"""
