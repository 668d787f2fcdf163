from collections.abc import AsyncIterator

import pytest

from tests.support.configuration import Json
from tests.support.service import BATCH, Envelope, Service, running

USER = {"user_id": "user_1", "tenant_id": "tenant_1"}
METADATA = {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "doc_1"}}


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    async with running(**shared_settings) as started:
        yield started


async def batch(service: Service, calls: object, **top_level: object) -> Envelope:
    response = await service.http.post(BATCH, json={"calls": calls, "user": USER, **top_level})
    answer: Envelope = response.json()
    return answer


async def test_results_come_in_request_order(service: Service) -> None:
    names = ["read_doc_metadata", "no_such_tool", "list_available_tools", "server:tool"]
    calls = [{"tool_name": name, "arguments": {"doc_id": "doc_1", "format": 1}} for name in names]
    answer = await batch(service, calls)
    codes = [result.get("error", {}).get("code", "OK") for result in answer["results"]]
    assert codes == ["OK", "TOOL_NOT_FOUND", "INVALID_ARGUMENTS", "TOOL_NOT_ALLOWED"]


async def test_every_envelope_has_the_trace_id_of_the_batch(service: Service) -> None:
    answer = await batch(service, [METADATA, METADATA], trace_id="t-1")
    assert [answer["trace_id"], *(r["trace_id"] for r in answer["results"])] == ["t-1"] * 3


async def test_arguments_are_optional(service: Service) -> None:
    answer = await batch(service, [{"tool_name": "list_available_tools"}])
    assert answer["results"][0]["status"] == "ok"


async def test_each_call_is_charged_separately() -> None:
    async with running(rate_limit_calls=3) as service:
        answer = await batch(service, [METADATA] * 5)
        assert [result["status"] for result in answer["results"]].count("ok") == 3


async def test_an_error_in_a_result_stays_http_200(service: Service) -> None:
    window = {"doc_id": "doc_1", "anchor_chunk_id": "c"}
    calls = [{"tool_name": "read_chunk_window", "arguments": window}]
    response = await service.http.post(BATCH, json={"calls": calls, "user": USER})
    assert (response.status_code, response.json()["results"][0]["error"]["code"]) == (
        200,
        "RETRIEVAL_NOT_CONFIGURED",
    )


@pytest.mark.parametrize(
    ("calls", "field"),
    [
        ([], "calls"),
        (None, "calls"),
        ({}, "calls"),
        ([METADATA] * 33, "calls"),
        ([METADATA, {}], "calls.1.tool_name"),
        ([METADATA, {"tool_name": "x", "arguments": 1}], "calls.1.arguments"),
        ([METADATA, METADATA | {"agent": "a"}], "calls.1.agent"),
        ([METADATA, METADATA | {"run": {"id": "r"}}], "calls.1.run"),
    ],
)
async def test_a_malformed_batch_is_refused_as_a_whole(
    service: Service, calls: object, field: str
) -> None:
    response = await service.http.post(BATCH, json={"calls": calls, "user": USER})
    assert (response.status_code, response.json()["error"]["details"]["field"]) == (422, field)


async def test_the_maximum_batch_size_is_a_setting() -> None:
    async with running(max_batch_calls=2) as service:
        answer = await batch(service, [METADATA] * 3)
        assert answer["error"]["code"] == "INVALID_REQUEST"


async def test_32_calls_are_accepted(service: Service) -> None:
    answer = await batch(service, [METADATA] * 32)
    assert len(answer["results"]) == 32


async def test_an_unknown_agent_fails_each_call(service: Service) -> None:
    answer = await batch(service, [METADATA], agent="a")
    assert answer["results"][0]["error"]["code"] == "AGENT_NOT_FOUND"
