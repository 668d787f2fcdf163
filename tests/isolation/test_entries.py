import asyncio
from itertools import product

import pytest

from tests.carriers.clients import over_stdio
from tests.isolation.witness import (
    CALLERS,
    KINDS,
    SEPARATED,
    TENANTS,
    Seen,
    called,
    check_sessions,
    config_of,
    entry_of,
    every_entry,
    headers_of,
    server_of,
)
from tests.support.configuration import Json
from tests.support.mcp_endpoint import LEGACY, MODERN, answer, serving
from tests.support.service import CONFIG_DIR, eventually


@pytest.mark.parametrize("kind", KINDS)
async def test_callers_never_receive_data_of_other_callers(kind: str) -> None:
    async with server_of(kind) as server:
        config = config_of({it: entry_of(server, kind, it) for it in SEPARATED})
        async with every_entry(config) as entries:
            wanted = list(product(SEPARATED, CALLERS))
            answers = await asyncio.gather(
                *(entries.all_answers(caller, f"{it}:witness") for it, caller in wanted)
            )
    seen = [
        Seen(isolation, caller, content)
        for (isolation, caller), contents in zip(wanted, answers, strict=True)
        for content in contents
    ]
    assert len(seen) == len(SEPARATED) * (len(CALLERS) * 6 + 2)
    for it in seen:
        it.check(kind)
    check_sessions(seen)
    assert len({it.owner for it in seen}) == 1 + len(TENANTS) + len(CALLERS)


@pytest.mark.e2e
async def test_programs_of_two_callers_share_nothing() -> None:
    callers = CALLERS[0], CALLERS[-1]
    async with server_of("http-legacy") as server:
        entries = {it: entry_of(server, "http-legacy", it) for it in SEPARATED}
        config_of(entries).write(CONFIG_DIR)
        first, second = [
            over_stdio(era, {}, caller=("--tenant", caller[0], "--user", caller[1]))
            for era, caller in zip((MODERN, LEGACY), callers, strict=True)
        ]
        async with first as one, second as other:
            seen = [
                Seen(isolation, caller, await called(client, f"{isolation}:witness"))
                for isolation in SEPARATED
                for caller, client in zip(callers, (one, other), strict=True)
            ]
    for it in seen:
        it.check("http-legacy")


async def test_killing_a_process_affects_only_its_own_callers() -> None:
    async with server_of("stdio") as server:
        config = config_of({"tenant": entry_of(server, "stdio", "tenant")})
        async with serving(config=config) as served:

            async def call(tenant_id: str) -> Json:
                user = {"tenant_id": tenant_id, "user_id": "ann"}
                envelope = await served.service.execute("tenant:witness", user=user)
                found: Json = envelope.get("result", {}).get("structured_content", {})
                return found

            one, other = [await call(tenant_id) for tenant_id in TENANTS]
            assert one["process"] != other["process"]
            process = await asyncio.create_subprocess_exec("kill", "-9", str(one["process"]))
            await process.wait()
            again: Json = {}

            async def is_back() -> bool:  # a call during the end of the process fails
                nonlocal again
                again = await call(TENANTS[0])
                return bool(again)

            await eventually(is_back)
            assert again["process"] not in (one["process"], other["process"])
            assert again["environment"] == one["environment"]
            assert (await call(TENANTS[1]))["process"] == other["process"]


@pytest.mark.parametrize(("isolation", "part"), [("tenant", "tenant_id"), ("user", "user_id")])
async def test_a_caller_without_the_isolating_part_reaches_no_session(
    isolation: str, part: str
) -> None:
    async with server_of("http-modern") as server:
        config = config_of({isolation: entry_of(server, "http-modern", isolation)})
        async with serving(config=config) as served:
            headers = headers_of(CALLERS[0])
            del headers["X-Tenant-Id" if part == "tenant_id" else "X-User-Id"]
            params = {"name": f"{isolation}:witness", "arguments": {}}
            response = await served.request("tools/call", params, headers=headers)
    result = answer(response)["result"]
    assert result["isError"]
    assert "IDENTITY_REQUIRED" in str(result)
    assert f"'part': '{part}'" in str(result) or f'"part":"{part}"' in str(result)
