"""Rewrites the assertions of all test files once, before several workers do it in parallel."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import module_from_spec
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook


def fill_assertion_cache(config: pytest.Config) -> None:
    """Write the bytecode of test files in the chosen folders, if workers are about to import them.

    Otherwise each worker of a new copy would rewrite all files: 5 s of CPU each. pytest writes the
    bytecode and then executes it, which ends at the first import because builtins are missing.
    """
    hook = config.pluginmanager.rewrite_hook
    has_workers = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if not has_workers or sys.dont_write_bytecode:
        return
    if not isinstance(hook, AssertionRewritingHook):  # --assert=plain
        return
    for path in _test_files(config):
        spec = hook.find_spec(path.stem, [str(path.parent)])
        if spec is not None:
            module = module_from_spec(spec)
            module.__dict__["__builtins__"] = {}
            with suppress(ImportError):
                hook.exec_module(module)


def _test_files(config: pytest.Config) -> Iterator[Path]:
    left_out = {*config.getini("norecursedirs")}
    for argument in config.args:
        folder = config.invocation_params.dir / argument
        if folder.is_dir():
            found = [*folder.rglob("test_*.py"), *folder.rglob("conftest.py")]
            yield from (it for it in found if left_out.isdisjoint(it.relative_to(folder).parts))
