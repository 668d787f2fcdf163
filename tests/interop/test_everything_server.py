"""The stranger itself, seen by the SDK's client: what the gateway's tests may rely on."""

import json
import re
from pathlib import Path
from typing import Any

from tests.interop.everything_server import TASK_ONLY, TOOLS, stdio_entry
from tests.support.mcp_servers.sdk_client import connected

HERE = Path(__file__).parent


async def test_it_starts_and_lists_what_it_has(entry: dict[str, Any]) -> None:
    async with connected(entry) as client:
        tools = await client.list_tools()
        prompts = await client.list_prompts()
        resources = await client.list_resources()
        templates = await client.list_resource_templates()
    assert sorted(tool.name for tool in tools.tools) == sorted([*TOOLS, TASK_ONLY])
    assert [len(prompts.prompts), len(resources.resources), len(templates.resource_templates)] == [
        4,
        7,
        2,
    ]


async def test_it_speaks_the_legacy_era() -> None:
    async with connected(stdio_entry()) as client:
        assert client.protocol_version == "2025-11-25"


def urls_in(value: object, key: str = "") -> list[tuple[str, str]]:
    """Return every URL under a JSON value with the key that it is under."""
    if isinstance(value, dict):
        return [url for name, each in value.items() for url in urls_in(each, name)]
    if isinstance(value, list):
        return [url for each in value for url in urls_in(each, key)]
    return [(key, value)] if isinstance(value, str) and "://" in value else []


def test_the_lock_has_hashes_and_no_registry() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert [name for name, each in packages.items() if "integrity" not in each] == []
    funding = {name: each.pop("funding", None) for name, each in packages.items()}
    assert (urls_in(packages), len(funding) > 0) == ([], True)


def test_every_package_is_pinned_to_one_version() -> None:
    package = json.loads((HERE / "package.json").read_text(encoding="utf-8"))
    wanted = {**package["dependencies"], **package["optionalDependencies"]}
    pinned = re.compile(r"\d+\.\d+\.\d+(-alpha\.\d+)?")
    assert [name for name, version in wanted.items() if not pinned.fullmatch(version)] == []
