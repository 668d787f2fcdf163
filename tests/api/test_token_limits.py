"""Creating, listing and revoking a token is limited to the permissions of the operator's token."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from mcp_tools_proxy.auth.token_format import read_lines
from mcp_tools_proxy.domain.identity import OperatorRight
from tests.api.document_operator import outcome
from tests.api.token_operator import TOKENS, create, entry_of, ids_of, loaded, revoke, serving
from tests.support.service import Service
from tests.support.tokens import TOKENS_FILE, file_token


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving() as started:
        yield started


AUDIT, CONFIG = OperatorRight.AUDIT, OperatorRight.CONFIG
OF_TENANT = {"tenant": "t"}
LIMITS: Mapping[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "all tenants": ({"tenant": None}, {"tenant": None}, None),
    "one of all tenants": ({"tenant": None}, OF_TENANT, None),
    "its tenant": (OF_TENANT, OF_TENANT, None),
    "another tenant": (OF_TENANT, {"tenant": "other"}, "tenant_id"),
    "no tenant": (OF_TENANT, {"tenant": None}, "tenant_id"),
    "its user": ({"user": "jo"}, {"user": "jo"}, None),
    "one of all users": ({}, {"user": "jo"}, None),
    "another user": ({"user": "jo"}, {"user": "ann"}, "user_id"),
    "all users": ({"user": "jo"}, {}, "user_id"),
    "asserted users of one user": ({"user": "jo"}, {"asserts_users": True}, "user_id"),
    "asserted users of none": ({}, {"asserts_users": True}, "asserts_users"),
    "asserted users": ({"asserts_users": True}, {"asserts_users": True}, None),
    "asserted users of an operator of all": ({"tenant": None}, {"asserts_users": True}, None),
    "a user of who asserts users": (
        {"asserts_users": True},
        {"user": "jo", "roles": ("boss",)},
        None,
    ),
    "its roles": ({"roles": ("editor", "lead")}, {"roles": ("lead",)}, None),
    "a role of none": ({}, {"roles": ("lead",)}, "roles"),
    "another role": ({"roles": ("editor",)}, {"roles": ("editor", "lead")}, "roles"),
    "a role of an operator of all": ({"tenant": None}, {"roles": ("lead",)}, None),
    "a role of an operator of all with roles": (
        {"tenant": None, "roles": ("editor",)},
        {"roles": ("lead",)},
        "roles",
    ),
    "one of its agents": ({"agents": ("a", "b")}, {"agents": ("a",)}, None),
    "one of all agents": ({}, {"agents": ("a",)}, None),
    "another agent": ({"agents": ("a",)}, {"agents": ("a", "b")}, "agents"),
    "all agents": ({"agents": ("a",)}, {}, "agents"),
    "one of its documents": ({"documents": ("d", "e")}, {"documents": ("d",)}, None),
    "none of its documents": ({"documents": ("d",)}, {"documents": ()}, None),
    "one of all documents": ({}, {"documents": ("d",)}, None),
    "another document": ({"documents": ("d",)}, {"documents": ("e",)}, "documents"),
    "all documents": ({"documents": ("d",)}, {}, "documents"),
    "a document of none": ({"documents": ()}, {"documents": ("d",)}, "documents"),
    "its rights": ({"may": [TOKENS, AUDIT]}, {"may": [TOKENS, AUDIT]}, None),
    "another right": ({"may": [TOKENS, AUDIT]}, {"may": [AUDIT, CONFIG]}, "rights"),
    "the right of presets": ({}, {"admin": True}, "rights"),
}
"""By case: the difference between the holder's and the requested token, and the refused field."""


def limit(name: str) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    """Return the holder, the requested token, and the field that exceeds it."""
    holder, wanted, field = LIMITS[name]
    if wanted.get("tenant", "t") is None:
        wanted = {"may": [TOKENS], **wanted}
    return {**OF_TENANT, **holder}, {**OF_TENANT, **wanted}, field


def ids_in_file() -> set[str]:
    return {it.id for it in read_lines(TOKENS_FILE.read_bytes()).entries}


def body_of(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request body for the token that ``file_token`` builds."""
    fields = {
        "tenant_id": wanted["tenant"],
        "user_id": wanted.get("user"),
        "roles": wanted.get("roles", ()),
        "asserts_users": wanted.get("asserts_users", False),
        "agents": wanted.get("agents"),
        "documents": wanted.get("documents"),
        "rights": [*wanted.get("may", ()), *(["presets"] if wanted.get("admin") else [])],
    }
    return {key: it for key, it in fields.items() if it is not None}


async def test_a_token_cannot_grant_more_than_its_creator(service: Service) -> None:
    for name in LIMITS:
        holder, wanted, field = limit(name)
        token = await loaded(service, **holder)
        before = ids_in_file()
        answer = await create(service, token, **body_of(wanted))
        found = outcome(answer), len(ids_in_file() - before)
        assert found == (((200, None), 1) if field is None else ((403, "FORBIDDEN"), 0)), name
        if wanted["tenant"] != "other" and field is not None:  # another tenant is refused earlier
            assert answer.json()["error"]["details"] == {"field": field}, name


async def test_only_tokens_within_the_holders_permissions_are_listed_and_revoked(
    service: Service,
) -> None:
    for name in LIMITS:
        holder, wanted, field = limit(name)
        entry = entry_of(file_token(**wanted))
        token = await loaded(service, **holder)
        assert (entry.id in await ids_of(service, token)) is (field is None), name
        answer = await revoke(service, entry.id, token)
        assert outcome(answer) == ((200, None) if field is None else (404, "NOT_FOUND")), name
        assert (entry.id in ids_in_file()) is (field is not None), name
