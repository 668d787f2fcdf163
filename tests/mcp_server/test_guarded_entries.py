import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.connector.backend_link import ERAS, begun, linked
from tests.mcp_server.entries import WAYS, Who, entered
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import Served, serving
from tests.support.mcp_servers.raw_web import running_raw

HIDDEN = "a\u200bb"
MARKER = "⟦removed: hiddenCharacters⟧"
DIRTY: Json = {
    "name": "dirty",
    "description": f"Finds notes. {HIDDEN}",
    "inputSchema": {"type": "object"},
}

ways = pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id="-".join(way), marks=[pytest.mark.e2e] if way[0] == "stdio" else [])
        for way in WAYS
        if "agents" not in way[0]
    ]
    + [pytest.param(("connector", era), id=f"connector-{era}") for era in ERAS],
)


@asynccontextmanager
async def config_of(guards: Json) -> AsyncIterator[Config]:
    async with running_raw(extra={"tools": [DIRTY]}) as server:
        yield Config(
            servers={"s": {**server.entry, "guards": guards}},
            presets=[make_preset("work", tools=[("s", "echo"), ("s", "dirty")])],
            more={"defaultPresetId": "work"},
        )


async def answered(config: Config, way: tuple[str, str], text: str) -> str:
    """Return all answers to a call of ``s:echo`` with this text."""
    name, mode = way
    if name == "connector":
        async with linked(config=config) as (_, backend):
            session = await begun(backend, mode)
            return json.dumps(await session.call("s:echo", {"text": text}), ensure_ascii=False)
    async with serving(config=config) as served:
        return await _by_entry(served, way, text)


async def _by_entry(served: Served, way: tuple[str, str], text: str) -> str:
    async with entered(served, way, Who()) as entry:
        used = await entry.use("tool", "s:echo", {"text": text})
        return json.dumps(json.loads(used.answer), ensure_ascii=False)


@ways
async def test_text_removed_by_a_guard_is_removed_at_every_entry(way: tuple[str, str]) -> None:
    async with config_of({"hiddenCharacters": "redact"}) as config:
        answer = await answered(config, way, HIDDEN)
    assert "\u200b" not in answer
    assert MARKER in answer
    assert '"arguments"' in answer  # the place of the finding


@ways
async def test_a_guards_refusal_applies_at_every_entry(way: tuple[str, str]) -> None:
    async with config_of({"hiddenCharacters": "refuse"}) as config:
        assert "GUARD_REFUSED" in await answered(config, way, HIDDEN)
