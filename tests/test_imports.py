"""What the start of a gateway imports: libraries that a feature needs come with that feature."""

import subprocess
import sys

import pytest

from tests.support.bounds import BOUND_S

SLOW = ("mcp", "mcp_types", "aiohttp", "httpx", "redis", "asyncpg", "jwt", "cryptography")
"""Together they take longer than all else of a start, and half of its memory."""

PROGRAM = f"""
import sys
from mcp_tools_proxy.{{module}} import *
print([name for name in {SLOW} if name in sys.modules])
"""


@pytest.mark.parametrize("module", ["asgi", "cli.main"])
def test_a_start_without_servers_imports_nothing_slow(module: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM.format(module=module)],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    assert done.stdout.strip() == "[]"
