"""The trace_id of a request: every spelling is accepted or ignored, never an error."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.configuration import Json
from tests.support.service import EXECUTE, Service, request_of, running

HEX32 = re.compile("[0-9a-f]{32}")


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    async with running(**shared_settings) as started:
        yield started


def section_request(**top_level: Any) -> dict[str, object]:
    arguments = {"doc_id": "doc_1", "section_id": "sec_intro"}
    return request_of("read_doc_section", arguments, **top_level)


async def test_the_trace_id_of_the_body_is_returned_in_body_and_header(service: Service) -> None:
    response = await service.http.post(
        EXECUTE, json=section_request(trace_id="from-body"), headers={"X-Trace-Id": "other"}
    )
    assert (response.json()["trace_id"], response.headers["X-Trace-Id"]) == ("from-body",) * 2


async def test_without_it_the_header_sets_the_trace_id(service: Service) -> None:
    headers = {"X-Trace-Id": "from-header", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    response = await service.http.post(EXECUTE, json=section_request(), headers=headers)
    assert response.json()["trace_id"] == "from-header"


async def test_without_both_traceparent_sets_the_trace_id(service: Service) -> None:
    headers = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    response = await service.http.post(EXECUTE, json=section_request(), headers=headers)
    assert response.json()["trace_id"] == "a" * 32


async def test_without_any_a_trace_id_is_generated(service: Service) -> None:
    response = await service.http.post(EXECUTE, json=section_request())
    assert HEX32.fullmatch(response.json()["trace_id"])


@pytest.mark.parametrize(
    "parent",
    [
        f"00-{'0' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"ff-{'a' * 32}-{'b' * 16}-01",
        "garbage",
    ],
)
async def test_an_invalid_traceparent_is_ignored(service: Service, parent: str) -> None:
    response = await service.http.post(
        EXECUTE, json=section_request(), headers={"traceparent": parent}
    )
    assert response.json()["trace_id"] not in {"a" * 32, "0" * 32}


SPELT = [
    ("req 1", "req_1"),
    ("запрос", "______"),
    ("x" * 300, "x" * 128),
    (f"{'x' * 127}é", "x" * 127 + "_"),
    (42, "42"),
    (0.5, "0.5"),
    (10**300, "1" + "0" * 127),
    ("a\nb\u2028\u0000", "a_b__"),
    ("\U0001f600", "_"),
]


@pytest.mark.parametrize(("given", "spelt"), SPELT)
async def test_any_trace_id_in_the_body_is_accepted(
    service: Service, given: object, spelt: str
) -> None:
    response = await service.http.post(
        EXECUTE, json=section_request(trace_id=given), headers={"X-Trace-Id": "other"}
    )
    assert (response.status_code, response.json()["status"]) == (200, "ok")
    assert (response.json()["trace_id"], response.headers["X-Trace-Id"]) == (spelt, spelt)


@pytest.mark.parametrize(
    ("given", "spelt"),
    [("req 1", "req_1"), ("запрос", "______"), ("x" * 300, "x" * 128), (" t-1 \t", "t-1")],
)
async def test_any_trace_header_is_accepted(service: Service, given: str, spelt: str) -> None:
    response = await service.http.post(
        EXECUTE, json=section_request(trace_id=""), headers={b"X-Trace-Id": given.encode()}
    )
    assert response.json()["trace_id"] == spelt


@pytest.mark.parametrize("empty", ["", " "])
async def test_empty_trace_ids_count_as_absent(service: Service, empty: str) -> None:
    response = await service.http.post(
        EXECUTE, json=section_request(trace_id=""), headers={"X-Trace-Id": empty}
    )
    assert HEX32.fullmatch(response.json()["trace_id"])


async def test_a_refused_request_keeps_its_trace_id(service: Service) -> None:
    body = section_request(trace_id="kept") | {"user": None}
    assert (await service.http.post(EXECUTE, json=body)).json()["trace_id"] == "kept"
