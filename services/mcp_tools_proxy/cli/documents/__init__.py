"""The ``documents`` commands."""
