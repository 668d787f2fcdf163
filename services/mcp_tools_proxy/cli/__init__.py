"""The command line: one module or package per command or group, and their output.

Docstrings of functions with ``@app.command`` are help texts for users.
"""
