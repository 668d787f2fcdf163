"""The command line: one module for each command or group of commands, and their output.

The docstrings of functions with ``@app.command`` are users' texts: ``--help`` prints them.
"""
