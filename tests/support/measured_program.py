"""The program itself, recording the iterations of its event loop in a file."""

import asyncio
from pathlib import Path
from typing import Any

from mcp_tools_proxy.cli import main as program
from tests.support.loop_turns import MOST_S, Turns

TURNS = Path("turns.txt")
"""Relative to the program's folder: a line for each iteration that is not short."""

KEPT_S = MOST_S / 5


class _WrittenTurns(list[float]):
    """Iterations that are written immediately, because the program may be killed."""

    def append(self, cpu_s: float) -> None:
        if cpu_s >= KEPT_S:
            with TURNS.open("a") as file:
                file.write(f"{cpu_s}\n")


def main() -> None:
    loop: Any = asyncio.BaseEventLoop
    loop._run_once = Turns(_WrittenTurns()).measuring(loop._run_once)
    program.main()


def long_turns(folder: Path) -> list[float]:
    file = folder / TURNS
    return [float(line) for line in file.read_text().split()] if file.exists() else []


if __name__ == "__main__":
    main()
