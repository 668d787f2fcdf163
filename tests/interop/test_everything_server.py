"""server-everything itself, as seen by the SDK's client: the basis of the gateway's tests."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.interop.everything_server import TASK_ONLY, TOOLS, stdio_entry
from tests.support.mcp_servers.sdk_client import connected

HERE = Path(__file__).parent
PACKAGES = [HERE, HERE.parent / "fleet"]


async def test_it_starts_and_lists_its_items(entry: dict[str, Any]) -> None:
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


async def test_it_uses_the_legacy_era() -> None:
    async with connected(stdio_entry()) as client:
        assert client.protocol_version == "2025-11-25"


def urls_in(value: object, key: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [url for name, each in value.items() for url in urls_in(each, name)]
    if isinstance(value, list):
        return [url for each in value for url in urls_in(each, key)]
    return [(key, value)] if isinstance(value, str) and "://" in value else []


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_the_lock_has_hashes_and_no_registry(folder: Path) -> None:
    lock = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert [name for name, each in packages.items() if "integrity" not in each] == []
    funding = {name: each.pop("funding", None) for name, each in packages.items()}
    assert (urls_in(packages), len(funding) > 0) == ([], True)


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_every_package_is_pinned_to_one_version(folder: Path) -> None:
    package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    wanted = {**package["dependencies"], **package.get("optionalDependencies", {})}
    pinned = re.compile(r"\d+\.\d+\.\d+(-alpha\.\d+)?")
    assert [name for name, version in wanted.items() if not pinned.fullmatch(version)] == []
