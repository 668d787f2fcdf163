"""Domain types: frozen values, the error tree, and protocols that other packages implement.

Standard library only, no I/O, nothing async of its own. Every package may import from here;
nothing here imports from another package.
"""
