"""The ``check`` command: what it runs, and its report as tables or as JSON."""
