"""No caller meets what is another's: sessions, connections, processes, headers, ``_meta``."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import product
from typing import Any, NamedTuple

import pytest

from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import BOTH, Served, answer, serving
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.service import eventually

TENANTS = ("acme", "x/../acme")
USERS = ("ann", "bob", "${secret:k}")
CALLERS = tuple(product(TENANTS, USERS))
FORWARD = ["tenant_id", "user_id"]
KEYS: Mapping[str, int] = {"shared": 0, "tenant": 1, "user": 2}
"""How much of tenant and user a session is of."""


class Seen(NamedTuple):
    """What the server saw of one call."""

    caller: tuple[str, str]
    content: Json

    @property
    def session(self) -> str:
        """The connection, or the process, or the session of an older era."""
        headers = self.content["headers"]
        return str(headers.get("mcp-session-id") or headers.get(":peer") or self.content["process"])


class Scene(NamedTuple):
    served: Served

    async def execute(self, tenant_id: str, user_id: str) -> Json:
        user = {"tenant_id": tenant_id, "user_id": user_id}
        body = {"tool_name": "s:witness", "user": user}
        response = await self.served.http.post("/internal/mcp/execute", json=body)
        return dict(response.json()["result"]["structured_content"])

    async def batch(self, tenant_id: str, user_id: str) -> Json:
        user = {"tenant_id": tenant_id, "user_id": user_id}
        body = {"calls": [{"tool_name": "s:witness"}], "user": user}
        response = await self.served.http.post("/internal/mcp/execute/batch", json=body)
        [envelope] = response.json()["results"]
        return dict(envelope["result"]["structured_content"])

    async def over_mcp(self, tenant_id: str, user_id: str) -> Json:
        called = {"name": "s:witness", "arguments": {}}
        meta = {"io.github.mcp-tools-proxy/caller": {"tenant_id": "forged"}}
        headers = {"X-Tenant-Id": tenant_id, "X-User-Id": user_id}
        response = await self.served.request("tools/call", called, headers=headers, meta=meta)
        return dict(answer(response)["result"]["structuredContent"])

    async def in_session(self, tenant_id: str, user_id: str) -> Json:
        headers = {"X-Tenant-Id": tenant_id, "X-User-Id": user_id}
        session_id = await self.served.open_session(headers=headers)
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "s:witness"}}
        response = await self.served.http.post(
            "/mcp", json=body, headers={**BOTH, **headers, "Mcp-Session-Id": session_id}
        )
        return dict(answer(response)["result"]["structuredContent"])

    async def all_entries(self, caller: tuple[str, str]) -> list[Seen]:
        entries = (self.execute, self.batch, self.over_mcp, self.in_session)
        found = await asyncio.gather(*(entry(*caller) for entry in entries))
        return [Seen(caller, content) for content in found]


@asynccontextmanager
async def isolated(kind: str, isolation: str) -> AsyncIterator[Scene]:
    """Serve a raw server with the values of callers wherever the isolation allows them."""
    more: Json = {"isolation": isolation, "forward": FORWARD, "maxSessions": 10}
    fixed = dict(zip(("CALLER_TENANT", "CALLER_USER"), FORWARD, strict=True))
    allowed = dict(list(fixed.items())[: KEYS[isolation]])
    if kind == "stdio":
        entry = raw_entry()
        entry["env"] |= {name: f"${{caller.{part}}}" for name, part in allowed.items()}
        async with _serving({**entry, **more}) as scene:
            yield scene
        return
    era = "legacy" if kind == "legacy" else "modern"
    of_call = fixed if era == "modern" else allowed
    more["headers"] = {f"X-{name}": f"${{caller.{part}}}" for name, part in of_call.items()}
    async with (
        running_raw(only=("witness",), era=era) as server,
        _serving({**server.entry, **more}) as scene,
    ):
        yield scene


@asynccontextmanager
async def _serving(entry: Json) -> AsyncIterator[Scene]:
    config = Config(
        servers={"s": entry},
        presets=[make_preset(tools=[("s", "witness")])],
        more={"defaultPresetId": "work"},
    )
    async with serving(config=config) as served:
        yield Scene(served)


@pytest.mark.parametrize("isolation", KEYS)
@pytest.mark.parametrize("kind", ["modern", "legacy", "stdio"])
async def test_no_caller_meets_what_is_of_another(kind: str, isolation: str) -> None:
    async with isolated(kind, isolation) as scene:
        found = await asyncio.gather(*(scene.all_entries(caller) for caller in CALLERS * 2))
        seen = [it for of_caller in found for it in of_caller]
    assert len(seen) == len(CALLERS) * 2 * 4
    owners: dict[str, set[Any]] = {}
    for it in seen:
        tenant_id, user_id = it.caller
        forwarded = it.content["meta"]["io.github.mcp-tools-proxy/caller"]
        assert forwarded == {"tenant_id": tenant_id, "user_id": user_id}
        owners.setdefault(it.session, set()).add(it.caller[: KEYS[isolation]])
        for name, value in zip(("CALLER_TENANT", "CALLER_USER"), it.caller, strict=True):
            shown = it.content["environment"].get(name) or it.content["headers"].get(
                f"x-{name.lower()}"
            )
            assert shown in (None, value.replace("$", "%24") if kind != "stdio" else value, value)
    assert all(len(of_session) == 1 for of_session in owners.values())
    assert len({key for of_session in owners.values() for key in of_session}) == len(
        {caller[: KEYS[isolation]] for caller in CALLERS}
    )


async def test_a_killed_process_is_that_of_its_own_callers_alone() -> None:
    async with isolated("stdio", "tenant") as scene:
        one, other = [await scene.execute(tenant_id, "ann") for tenant_id in TENANTS]
        assert one["process"] != other["process"]
        process = await asyncio.create_subprocess_exec("kill", "-9", str(one["process"]))
        await process.wait()
        again: Json = {}

        async def is_back() -> bool:  # a call that met the end of the process has failed
            nonlocal again
            envelope = await scene.served.service.execute(
                "s:witness", tenant_id=TENANTS[0], user={"tenant_id": TENANTS[0], "user_id": "ann"}
            )
            again = envelope.get("result", {}).get("structured_content", {})
            return bool(envelope["status"] == "ok")

        await eventually(is_back)
        assert again["process"] not in (one["process"], other["process"])
        assert again["environment"] == one["environment"]
        assert (await scene.execute(TENANTS[1], "ann"))["process"] == other["process"]


@pytest.mark.parametrize(("isolation", "part"), [("tenant", "tenant_id"), ("user", "user_id")])
async def test_a_caller_without_the_part_reaches_no_session(isolation: str, part: str) -> None:
    async with isolated("modern", isolation) as scene:
        headers = {"X-Tenant-Id": "acme"} if part == "user_id" else {"X-User-Id": "ann"}
        called = {"name": "s:witness", "arguments": {}}
        response = await scene.served.request("tools/call", called, headers=headers)
        result = answer(response)["result"]
        assert result["isError"]
        assert "IDENTITY_REQUIRED" in str(result)
        assert f"'part': '{part}'" in str(result) or f'"part":"{part}"' in str(result)
