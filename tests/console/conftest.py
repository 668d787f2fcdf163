"""Fixtures of the console's tests."""

from collections.abc import Iterator
from functools import partial
from types import CodeType

import pytest
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from mcp_tools_proxy.console import templates


class _CompiledTemplates(BytecodeCache):
    """Keeps compiled templates in memory by name and content."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._held.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        self._held[bucket.key, bucket.checksum] = bucket.code


@pytest.fixture(autouse=True, scope="session")
def compiled_templates() -> Iterator[None]:
    """Compile each template only once: every started service has its own console."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            templates, "Environment", partial(Environment, bytecode_cache=_CompiledTemplates())
        )
        yield
