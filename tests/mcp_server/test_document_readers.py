from collections.abc import Mapping

import pytest

from mcp_tools_proxy.domain.document import Readers
from tests.support.builders import make_document
from tests.support.mcp_endpoint import Served, serving

PAYROLL = make_document(
    doc_id="payroll",
    pages=("Salaries of all.",),
    readers=Readers(users=frozenset({"ann"}), roles=frozenset({"audit"})),
)
CALLERS: dict[str, tuple[Mapping[str, str], bool]] = {
    "the user": ({"X-User-Id": "ann"}, True),
    "a role": ({"X-User-Id": "bob", "X-User-Roles": "x,audit"}, True),
    "a role without a user": ({"X-User-Roles": "audit"}, True),
    "another role": ({"X-User-Id": "bob", "X-User-Roles": "x"}, False),
    "another user": ({"X-User-Id": "bob"}, False),
    "nobody": ({}, False),
}
SEARCH = {"doc_id": "payroll", "query": "salaries"}


async def is_admitted(served: Served, path: str, mode: str, caller: Mapping[str, str]) -> bool:
    headers = {"X-Tenant-Id": "tenant_1", **caller}
    async with served.client(path, mode=mode, headers=headers) as client:
        result = await client.call_tool("doc_local_search", SEARCH)
    text = str(result.content)
    assert ("Salaries" in text) is not bool(result.is_error)
    assert ("ACCESS_DENIED" in text) is bool(result.is_error)
    return not result.is_error


@pytest.mark.parametrize(
    ("path", "mode"),
    [("/mcp", "auto"), ("/mcp", "legacy"), ("/mcp/sse", "legacy")],
    ids=["modern", "legacy", "sse"],
)
async def test_a_user_without_access_is_denied(path: str, mode: str) -> None:
    async with serving() as served:
        served.service.gateway.repository.hold(PAYROLL)
        found = {
            name: await is_admitted(served, path, mode, headers)
            for name, (headers, _) in CALLERS.items()
        }
    assert found == {name: admitted for name, (_, admitted) in CALLERS.items()}


async def test_a_session_has_the_roles_of_each_request() -> None:
    """A revoked role ends with the next request, not with the session."""
    async with serving() as served:
        served.service.gateway.repository.hold(PAYROLL)
        headers = {"X-Tenant-Id": "tenant_1", "X-User-Id": "bob"}
        audit = {**headers, "X-User-Roles": "audit"}
        session = await served.open_session(headers=audit)
        errors = []
        for caller in (audit, headers):
            response = await served.http.post(
                "/mcp",
                json={
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {"name": "doc_local_search", "arguments": SEARCH},
                },
                headers={
                    **caller,
                    "Accept": "application/json, text/event-stream",
                    "Mcp-Session-Id": session,
                },
            )
            errors.append("ACCESS_DENIED" in response.text)
    assert errors == [False, True]
