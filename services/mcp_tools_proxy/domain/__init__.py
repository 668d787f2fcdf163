"""The nouns: frozen value types, the error tree, protocols that other rooms fulfil.

Standard library only, no I/O, nothing async of its own. Everything else may import from here;
nothing here imports from another room.
"""
