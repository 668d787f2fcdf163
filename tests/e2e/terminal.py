"""The program on a terminal: output and input."""

import os
import pty
import re
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.bounds import BOUND_S
from tests.support.program_launch import launch

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class TerminalOutput:
    """The output on the terminal without colours, and the exit code."""

    text: str
    exit_code: int

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.splitlines()]


def run_on_terminal(
    folder: Path,
    *arguments: str,
    columns: int = 80,
    typed: str = "",
    environment: Mapping[str, str] | None = None,
) -> TerminalOutput:
    """Run ``mcp-tools-proxy`` in ``folder`` on a terminal; ``typed`` is its first input."""
    ours, its = pty.openpty()
    try:
        termios.tcsetwinsize(its, (25, columns))
        os.write(ours, typed.encode())
        settings = {"TERM": "xterm", **(environment or {})}
        process = launch(arguments, folder, settings, streams=(its, its, its))
    finally:
        os.close(its)
    try:
        shown = _read_to_the_end(ours)
        return TerminalOutput(text=_ESCAPES.sub("", shown), exit_code=process.wait(BOUND_S))
    finally:
        os.close(ours)
        process.kill()


def _read_to_the_end(terminal: int) -> str:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # raised by Linux after the last process closed the terminal
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()
