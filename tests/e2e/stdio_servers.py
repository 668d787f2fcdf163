"""Stdio servers started by the program."""

import shlex
from pathlib import Path

from tests.support.configuration import Json


def writing_its_pid(entry: Json, file: Path) -> Json:
    """Build an entry of a server that writes its process id before it starts."""
    command = shlex.join([entry["command"], *entry["args"]])
    return {**entry, "command": "/bin/sh", "args": ["-c", f"echo $$ > {file}; exec {command}"]}
