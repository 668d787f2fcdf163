"""The OpenAPI document of the whole service, loaded by schemathesis, and whether it describes an
answer."""

import re
from typing import Any, cast

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    missing_required_header,
    negative_data_rejection,
    not_a_server_error,
    positive_data_acceptance,
)
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.documents.open_documents import seed_documents
from mcp_tools_proxy.settings.settings import Settings
from tests.support.bounds import BOUND_S
from tests.support.service import EXECUTE, request_of

UNLIMITED = {
    f"rate_limit_{name}": 0 for name in ("calls", "tokens", "tenant_calls", "tenant_tokens")
}
app = create_app(
    Settings.model_validate(
        {"_env_file": None, "require_agent": False, "allowed_hosts": "testserver", **UNLIMITED}
    )
)  # without the lifespan agents.json is never read, so an agent would be required
for document in seed_documents():
    app.state.gateway.repository.hold(document)


async def without_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the application; schemathesis would start and stop it for each call."""
    if scope["type"] != "lifespan":
        await app(scope, receive, send)
        return
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


schema = schemathesis.openapi.from_asgi("/openapi.json", without_lifespan, timeout=BOUND_S)
quietly = settings(
    max_examples=min(12, settings().max_examples),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)

CALLER = {"user", "user.user_id", "user.tenant_id", "tenant_id"}
LIMITED_BY_SETTINGS = {"calls"}
"""A batch is limited by ``max_batch_calls``, which is not in the document."""
IDS = re.compile(r"calls\.\d+\.(call_)?id")
"""The calls of a model's reply have unique ids, which a schema cannot express."""

BEYOND_A_SCHEMA = {"cursor", "filter", "body", "X-User-Roles", "X-Documents"}
"""Cursors from earlier responses; filters as JSON text; bodies with one of two fields, or a file;
comma-separated lists without empty elements."""

NAMED_TWICE = {"Idempotency-Key", "X-Run-Id"}
"""The body can have a different one."""


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


def check_answer(case: schemathesis.Case[Any]) -> None:
    """Send the request; raise if the document does not describe the response."""
    response = case.call()
    if response.status_code == 503:
        assert response.json().get("error", {}).get("code", "not ready") in {
            "RETRIEVAL_NOT_CONFIGURED",
            "not ready",
        }
        case.validate_response(response, excluded_checks=[not_a_server_error])
    else:
        case.validate_response(response, excluded_checks=beyond_openapi(case, response))


def check_operation(method: str, path: str) -> None:
    """Check the responses to valid and invalid requests of an operation."""
    operation = schema[path][method]

    @quietly
    @given(case=operation.as_strategy() | operation.as_strategy(GenerationMode.NEGATIVE))
    def check(case: schemathesis.Case[Any]) -> None:
        check_answer(case)

    check()


PLAUSIBLE: st.SearchStrategy[object] = st.sampled_from(
    ["doc_1", "sec_intro", "p1-c1", "no such thing", "", "leak", "7", 1, 2, 13, 0, -1, 10**20, 1.5,
     True, None, [], {}, "LDAP certificate"]
)  # fmt: skip
NAMES = ["doc_id", "section_id", "page_start", "page_end", "start_char", "query", "max_results",
         "anchor_chunk_id", "window_before", "window_after", "radius", "other"]  # fmt: skip


def check_tool(tool_name: str) -> None:
    """Check the responses of a tool; most of the arguments are wrong."""

    @quietly
    @given(arguments=st.dictionaries(st.sampled_from(NAMES), PLAUSIBLE, max_size=5))
    def check(arguments: dict[str, object]) -> None:
        case = schema[EXECUTE]["POST"].Case(body=cast("Any", request_of(tool_name, arguments)))
        response = case.call()
        code = response.json().get("error", {}).get("code")
        assert response.status_code == (503 if code == "RETRIEVAL_NOT_CONFIGURED" else 200)
        case.validate_response(response, excluded_checks=[not_a_server_error])

    check()
