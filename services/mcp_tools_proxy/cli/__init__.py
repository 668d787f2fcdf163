"""The command line: one module or package for each command or group, and their output.

The docstrings of functions with ``@app.command`` are users' texts: ``--help`` prints them.
"""
