"""Responses to the requests that schemathesis generates; test_openapi.py runs this as a program.

Only this module loads its pytest plugin, which inspects the whole exception chain of each failure
in every test and once ended a run after 3,087 tests when a timeout interrupted it. PART selects
some of the operations and tools, because all of them exceed the time limit of one test."""

import os
import re
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis.checks import (
    missing_required_header,
    negative_data_rejection,
    not_a_server_error,
    positive_data_acceptance,
)

from tests.api.openapi_schema import quietly, schema
from tests.support.local_tools import LOCAL_TOOLS
from tests.support.service import EXECUTE, request_of

CALLER = {"user", "user.user_id", "user.tenant_id", "tenant_id"}
LIMITED_BY_SETTINGS = {"calls"}
"""A batch is limited by ``max_batch_calls``, which is not in the document."""
IDS = re.compile(r"calls\.\d+\.(call_)?id")
"""The calls of a model's reply have unique ids, which a schema cannot express."""

BEYOND_A_SCHEMA = {"cursor", "filter", "body", "X-User-Roles", "X-Documents"}
"""Cursors from earlier responses; filters as JSON text; bodies with one of two fields, or a file;
comma-separated lists without empty elements."""

NAMED_TWICE = {"Idempotency-Key"}
"""The body can have a different one."""


PART, PARTS = (int(it) for it in os.environ.get("PART", "0/1").split("/"))  # noqa: TID251 - of test_openapi.py


TOOLS = [*LOCAL_TOOLS][PART::PARTS]


_NUMBERS: dict[str, int] = {}


def is_in_part(operation: str) -> bool:
    return _NUMBERS.setdefault(operation, len(_NUMBERS)) % PARTS == PART


def beyond_openapi(case: schemathesis.Case[Any], response: Any) -> list[Any]:
    """Return the checks that the document cannot express: authentication, limits, conflicts."""
    checks: list[Any] = []
    if response.status_code == 422:
        field = response.json()["error"]["details"]["field"]
        if field in CALLER | LIMITED_BY_SETTINGS | NAMED_TWICE | BEYOND_A_SCHEMA or IDS.fullmatch(
            field
        ):
            checks.append(positive_data_acceptance)
    if response.status_code in (403, 422):  # refused before the token is checked, or with any token
        checks.append(missing_required_header)
    query = case.query or {}
    if isinstance(query.get("names"), str) or [] in query.values():
        # a string is sent as a list of one item; [] is omitted
        checks.append(negative_data_rejection)
    if not all(str(value).isascii() for value in (case.headers or {}).values()):
        checks.append(negative_data_rejection)  # may be UTF-8 by chance
    return checks


@schema.include(func=lambda it: is_in_part(it.operation.label)).parametrize()
@quietly
def test_every_answer_is_described(case: schemathesis.Case[Any]) -> None:
    response = case.call()
    if response.status_code == 503:
        assert response.json().get("error", {}).get("code", "not ready") in {
            "RETRIEVAL_NOT_CONFIGURED",
            "not ready",
        }
        case.validate_response(response, excluded_checks=[not_a_server_error])
    else:
        case.validate_response(response, excluded_checks=beyond_openapi(case, response))


PLAUSIBLE: st.SearchStrategy[object] = st.sampled_from(
    ["doc_1", "sec_intro", "p1-c1", "no such thing", "", "leak", "7", 1, 2, 13, 0, -1, 10**20, 1.5,
     True, None, [], {}, "LDAP certificate"]
)  # fmt: skip
NAMES = ["doc_id", "section_id", "page_start", "page_end", "start_char", "query", "max_results",
         "anchor_chunk_id", "window_before", "window_after", "radius", "other"]  # fmt: skip


@pytest.mark.parametrize("tool_name", TOOLS)
@quietly
@given(arguments=st.dictionaries(st.sampled_from(NAMES), PLAUSIBLE, max_size=5))
def test_every_tool_answer_is_described(tool_name: str, arguments: dict[str, object]) -> None:
    case = schema[EXECUTE]["POST"].Case(body=cast("Any", request_of(tool_name, arguments)))
    response = case.call()
    code = response.json().get("error", {}).get("code")
    assert response.status_code == (503 if code == "RETRIEVAL_NOT_CONFIGURED" else 200)
    case.validate_response(response, excluded_checks=[not_a_server_error])


@pytest.mark.parametrize("tool_name", TOOLS)
def test_every_example_runs(tool_name: str) -> None:
    content = schema.raw_schema["paths"][EXECUTE]["post"]["requestBody"]["content"]
    examples = content["application/json"]["examples"]
    case = schema[EXECUTE]["POST"].Case(body=cast("Any", examples[tool_name]["value"]))
    answer = case.call().json()
    code = answer.get("error", {}).get("code", "OK")
    assert code == ("RETRIEVAL_NOT_CONFIGURED" if tool_name == "read_chunk_window" else "OK")
