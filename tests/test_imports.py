"""Libraries of a feature are imported only if the feature is used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.bounds import BOUND_S

SLOW = (
    *("mcp", "mcp_types", "aiohttp", "httpx", "redis", "asyncpg", "jwt", "cryptography"),
    *("jinja2", "mcp_tools_proxy.console"),
)
"""Together they take most of the startup time and half of its memory."""

PROGRAM = f"""
import sys
from mcp_tools_proxy.{{module}} import *
print([name for name in {SLOW} if name in sys.modules])
"""


@pytest.mark.parametrize("module", ["asgi", "main", "cli.main"])
def test_a_start_without_servers_imports_nothing_slow(module: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM.format(module=module)],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    assert "[]" in done.stdout.splitlines(), "the other lines are its log"


CONSOLE = """
import sys
from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
create_app(Settings(console=True, admin_token="correct-horse-battery"))
print([name for name in ("mcp", "aiohttp", "httpx", "redis", "asyncpg") if name in sys.modules])
"""


def test_a_console_imports_no_unused_stores_or_issuers() -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", CONSOLE], capture_output=True, text=True, timeout=BOUND_S, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]", "the lines before are its log"


TOGETHER = """
import asyncio
import importlib
from functools import partial
from mcp_tools_proxy.app.optional import Lazy

async def main():
    opened = [Lazy(partial(importlib.import_module, name)) for name in NAMES]
    await asyncio.gather(*[it.open() for it in opened])

asyncio.run(main())
"""
DOWNSTREAM = "mcp_tools_proxy.downstream"
MODULES = [f"{DOWNSTREAM}.mcp_client.dialer", f"{DOWNSTREAM}.oauth.session_tokens"]


@pytest.mark.parametrize("names", [MODULES, MODULES[::-1]])
def test_modules_for_servers_can_be_imported_by_parallel_threads(names: list[str]) -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", f"NAMES = {names}{TOGETHER}"],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.stderr == ""


RESTORED = """
import asyncio
import sys
import threading
from pathlib import Path
from pydantic_core import to_json
from mcp_tools_proxy.app.optional import build_dialer
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.known_definitions import KnownDefinitions, fingerprint
from mcp_tools_proxy.settings.settings import Settings

class ImportsOfTheLoop:
    def find_spec(name, path=None, target=None):
        if name.startswith("mcp.") and threading.current_thread() is threading.main_thread():
            print(name)

LISTS = {
    "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
    "prompts": [],
    "resources": [{"name": "r", "uri": "notes://all"}],
    "resource_templates": [{"name": "n", "uriTemplate": "notes://note/{title}"}],
}

async def main():
    sys.meta_path.insert(0, ImportsOfTheLoop)
    config = ServerConfig(server_id="notes", transport=Transport.STDIO)
    kept = Path(FOLDER) / f"server-{fingerprint(config)}.json"
    kept.write_bytes(to_json({"lists": LISTS, "instructions": None}))
    dialer = build_dialer(Settings())
    known = KnownDefinitions(Path(FOLDER), dialer.open)
    restored, _ = await asyncio.gather(known.load(config), dialer.open())
    print(len(restored.tools), len(restored.resources), len(restored.templates))

asyncio.run(main())
"""


def test_restored_definitions_import_nothing_during_the_first_connection(tmp_path: Path) -> None:
    """Two threads importing the SDK in parallel deadlock, which crashes the server."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", f"FOLDER = {str(tmp_path)!r}{RESTORED}"],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (done.stdout.splitlines(), done.stderr) == (["1 1 1"], "")
