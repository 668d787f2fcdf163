"""Tries breaks on copies of the repository: each must make one of its tests fail."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from enum import Enum
from importlib.util import cache_from_source
from pathlib import Path

from tests.breaks.catalogue import ROOT, Break, CannotApply

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", ".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules", "site"
)
_HANG_S = 60  # a break can make a test wait for ever
_PYTEST = (
    *("-m", "pytest", "-q", "--no-header", "-m", "", "-p", "no:cacheprovider"),
    f"--timeout={_HANG_S}",
    "--timeout-method=thread",  # ends pytest: a busy event loop handles no signal
    *("--hypothesis-profile", "full"),
)
_FAILED = 1  # pytest's exit code when tests ran and some failed


class Verdict(Enum):
    """The outcome for one break; the values are what is printed."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    """All tests passed: a test for this fault is missing."""
    STALE = "DOES NOT APPLY"
    RED = "RED WITHOUT IT"
    """Its tests also fail without the break, so they prove nothing."""
    UNRUN = "NOT RUN"
    """No test could be run, for example because the changed module cannot be imported."""


class Tree:
    """A copy of the repository in which tests run; the original is never changed."""

    def __init__(self, path: Path, original: Path) -> None:
        self.path = path
        shutil.copytree(original, path, ignore=_LEFT_OUT, symlinks=True)

    async def try_break(self, change: Break) -> Verdict:
        """Apply one break, run its tests until the first failure, and undo the break."""
        try:
            file, changed = change.path_in(self.path), change.changed_text(self.path)
        except CannotApply:
            return Verdict.STALE
        original = file.read_text(encoding="utf-8")
        _write(file, changed)
        try:
            code, _ = await self.run_tests(change.tests, "--exitfirst")
        finally:
            _write(file, original)
        if code == 0:
            return Verdict.SURVIVED
        return Verdict.CAUGHT if code == _FAILED else Verdict.UNRUN

    async def failing_files(self, tests: Collection[str], workers: int) -> frozenset[str]:
        """Run tests without any break; return the files with a test that fails.

        Raises RuntimeError when they cannot be run.
        """
        parallel = ("--numprocesses", str(workers), "--dist", "worksteal") if workers > 1 else ()
        code, output = await self.run_tests(sorted(set(tests)), *parallel)
        if code not in (0, _FAILED):
            raise RuntimeError(f"the tests cannot be run:\n{output}")
        lines = [line.split() for line in output.splitlines()]
        return frozenset(
            words[1].partition("::")[0]
            for words in lines
            if len(words) > 1 and words[0] in ("FAILED", "ERROR")
        )

    async def run_tests(self, tests: Sequence[str], *options: str) -> tuple[int, str]:
        """Run pytest here; return its exit code and output."""
        services = str(self.path / "services")  # before the installed package
        # a file: a process that a test left behind would keep a pipe open
        output = self.path.with_suffix(".out")
        with output.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_PYTEST,
                *options,
                *tests,
                cwd=self.path,
                env={**os.environ, "PYTHONPATH": services},  # noqa: TID251 - tests need the others
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
            try:
                code = await process.wait()
            finally:  # after an interruption, too
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return code, output.read_text(errors="replace")


async def try_all(
    breaks: Sequence[Break],
    folder: Path,
    *,
    workers: int,
    report: Callable[[Break, Verdict], None],
    original: Path = ROOT,
) -> None:
    """Try all breaks, several in parallel, on copies in ``folder``; report each immediately."""
    trees = [Tree(folder / str(number), original) for number in range(workers)]
    named = [test for it in breaks if it.problem(original) is None for test in it.tests]
    failing = await trees[0].failing_files(named, workers) if named else frozenset()
    left = iter(breaks)

    async def work(tree: Tree) -> None:
        for change in left:
            is_red = any(_contains(test, file) for test in change.tests for file in failing)
            report(change, Verdict.RED if is_red else await tree.try_break(change))

    async with asyncio.TaskGroup() as group:
        for tree in trees:
            group.create_task(work(tree))


def _contains(test: str, file: str) -> bool:
    """Return whether ``test``, a file or a folder, is or contains ``file``."""
    return Path(file).is_relative_to(test)


def _write(path: Path, text: str) -> None:
    """Write a module, and remove its bytecode: its time may be the same, to the second."""
    path.write_text(text, encoding="utf-8")
    Path(cache_from_source(path)).unlink(missing_ok=True)
