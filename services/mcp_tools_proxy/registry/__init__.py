"""Callable components and their visibility: one frozen ``Registry``, replaced as a whole."""
