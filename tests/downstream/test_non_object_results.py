"""Results that are JSON but not objects: the tool ran, so its answer counts (F-19)."""

import json
from typing import Any

import pytest

from tests.downstream.faulty_servers import SERVER_KINDS, Scene, scene
from tests.support.service import PROMPTS, RESOURCES

every_kind = pytest.mark.parametrize("kind", SERVER_KINDS)
over_a_network = pytest.mark.parametrize("kind", [kind for kind in SERVER_KINDS if kind != "stdio"])

BARE = ["str", "", [1, {"id": 1}], [], None, 5, 1.5, False]
USER = {"user_id": "u", "tenant_id": "tenant_1"}


@every_kind
@pytest.mark.requirement("F-19")
async def test_a_result_that_is_not_an_object_is_shown_as_json(kind: str) -> None:
    async with scene(kind) as it:
        for value in BARE:
            envelope = await it.envelope("bare", result=value)
            assert envelope["status"] == "ok", envelope
            (block,) = envelope["result"]["content"]
            assert (json.loads(block["text"]), envelope["result"]["structured_content"]) == (
                value,
                {"raw": value},
            )
        assert (it.bad.seen("bare"), (await it.status())["reconnects"]) == (len(BARE), 0)


@every_kind
@pytest.mark.requirement("F-19")
async def test_a_non_object_result_of_a_tool_with_an_output_schema_is_a_final_failure(
    kind: str,
) -> None:
    async with scene(kind) as it:
        for value in BARE:
            error = (await it.envelope("bare_typed", result=value))["error"]
            assert (error["code"], error.get("retryable")) == ("TOOL_FAILED", None)
        assert it.bad.seen("bare_typed") == len(BARE)
        assert await it.call("bare_typed", result={"content": []}) == "OK"


@over_a_network
@pytest.mark.parametrize("value", ["str", [1], None, 5])
async def test_a_prompt_or_resource_that_is_not_an_object_is_unavailable(
    kind: str, value: Any
) -> None:
    async with scene(kind, more={"prompts/get": value, "resources/read": value}) as it:
        got = await _use(it, f"{PROMPTS}/get", name="plain")
        read = await _use(it, f"{RESOURCES}/read", uri="raw://text")
        assert (got["code"], read["code"]) == ("SERVER_UNAVAILABLE", "SERVER_UNAVAILABLE")
        assert await it.answers(), "only those calls failed"


async def _use(it: Scene, route: str, **body: str) -> Any:
    response = await it.service.http.post(route, json={**body, "user": USER})
    return response.json()["error"]
