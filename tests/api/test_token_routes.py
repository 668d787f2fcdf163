"""Tokens are listed, created and revoked by request, with immediate effect."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.auth.token_format import TokenEntry, dump_line, read_lines, sha256_of
from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.api.document_operator import ADMIN, outcome
from tests.api.token_operator import (
    PATH,
    TOKENS,
    create,
    entry_of,
    ids_of,
    listed,
    loaded,
    reload,
    revoke,
    serving,
)
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent
from tests.support.service import TOOLS, Service, running
from tests.support.tokens import TOKENS_FILE, bearer, file_token, jwt_settings, token_settings


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving() as started:
        yield started


async def test_a_token_works_immediately_until_it_is_revoked(service: Service) -> None:
    made = await create(service, tenant_id="tenant_1", note="chat")
    token = made.json()["token"]
    assert (made.status_code, made.headers["cache-control"]) == (200, "no-store")
    assert (await service.http.get(TOOLS, headers=bearer(token))).status_code == 200
    revoked = await revoke(service, made.json()["id"])
    assert revoked.json() == {key: it for key, it in made.json().items() if key != "token"}
    assert (await service.http.get(TOOLS, headers=bearer(token))).status_code == 401
    assert read_lines(TOKENS_FILE.read_bytes()).entries == ()


async def test_a_created_token_is_returned_listed_and_in_the_file(service: Service) -> None:
    wanted: dict[str, Any] = {
        "tenant_id": "acme",
        "user_id": "jo",
        "roles": ["editor", "lead"],
        "asserts_users": False,
        "execute": False,
        "agents": ["a", "b"],
        "documents": ["x,y", "z"],
        "rights": ["audit", "presets"],
        "note": "«chat»",
    }
    made = (await create(service, **wanted, expires="90d")).json()
    (shown,) = (await listed(service))["tokens"]
    assert made == {"token": made["token"], "warnings": made["warnings"], **shown}
    entry = entry_of(made["token"])
    created, expires = (datetime.fromisoformat(shown.pop(it)) for it in ("created", "expires"))
    assert shown == {**wanted, "id": entry.id, "is_expired": False, "expires_soon": False}
    assert (created, expires) == (entry.created, created + timedelta(days=90))
    assert entry.principal.agents == frozenset("ab")


async def test_agents_without_a_profile_cause_a_warning(service: Service) -> None:
    config = Config(agents=[make_agent("desk")])
    async with serving(config=config) as started:
        made = (await create(started, tenant_id="acme", agents=["desk", "dsek"])).json()
        known = (await create(started, tenant_id="acme", agents=["desk"])).json()
    assert made["warnings"] == [
        'agent "dsek" is not in agents.json; its calls are refused until a profile is added'
    ]
    assert "warnings" not in known


async def test_one_token_can_be_listed_by_its_id(service: Service) -> None:
    ids = [(await create(service, tenant_id="acme")).json()["id"] for _ in range(3)]
    for it in ids:
        found = await listed(service, token_id=it, tenant_id="acme")
        assert [token["id"] for token in found["tokens"]] == [it]
    assert (await listed(service, token_id=ids[0], tenant_id="rival"))["tokens"] == []


async def test_absent_limits_are_omitted_and_no_documents_are_an_empty_list(
    service: Service,
) -> None:
    made = (await create(service, tenant_id="acme", documents=[], agents=None)).json()
    assert (made["documents"], made["roles"], made["rights"]) == ([], [], [])
    assert made.keys().isdisjoint({"agents", "user_id", "expires"})


async def test_a_list_has_neither_token_nor_hash(service: Service) -> None:
    token = (await create(service, tenant_id="acme")).json()["token"]
    text = json.dumps(await listed(service))
    assert (token[:12] in text, sha256_of(token)[:12] in text, "acme" in text) == (
        False,
        False,
        True,
    )


async def test_the_admin_token_has_all_rights_and_is_not_in_the_list(
    service: Service,
) -> None:
    made = await create(service, rights=[*OperatorRight], asserts_users=True)
    assert made.json()["rights"] == sorted(OperatorRight)
    assert await ids_of(service) == {made.json()["id"]}
    assert outcome(await revoke(service, "admin_token")) == (404, "NOT_FOUND")


async def test_an_operator_can_revoke_their_own_token(service: Service) -> None:
    token = await loaded(service)
    assert outcome(await revoke(service, entry_of(token).id, token)) == (200, None)
    assert outcome(await service.http.get(PATH, headers=bearer(token))) == (401, "UNAUTHENTICATED")


async def test_the_current_file_entry_of_a_token_applies(service: Service) -> None:
    entry = entry_of(file_token(tenant="t"))
    token = await loaded(service, tenant="t")
    assert entry.id in await ids_of(service, token)
    lines = TOKENS_FILE.read_text().splitlines()
    broader = json.dumps({**json.loads(lines[0]), "tenant": "other"})
    TOKENS_FILE.write_text("\n".join([broader, *lines[1:]]))
    assert outcome(await revoke(service, entry.id, token)) == (404, "NOT_FOUND")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_each_route_needs_the_right(service: Service, method: str) -> None:
    tokens = {
        file_token(may={*OperatorRight} - {TOKENS}): (403, "FORBIDDEN"),
        file_token(): (403, "FORBIDDEN"),
        "mtp_" + "x" * 43: (401, "UNAUTHENTICATED"),
    }
    await reload(service)
    query = {"token_id": "x"} if method == "DELETE" else None
    body = {"tenant_id": "tenant_1"} if method == "POST" else None
    for token, expected in tokens.items():
        answer = await service.http.request(
            method, PATH, params=query, json=body, headers=bearer(token)
        )
        assert outcome(answer) == expected


@pytest.mark.parametrize("mode", ["none", "jwt"])
async def test_with_other_authentication_modes_tokens_are_refused(mode: str) -> None:
    settings = jwt_settings() if mode == "jwt" else {}
    async with running(**settings, admin_token=ADMIN) as service:
        answers = [
            await service.http.get(PATH, headers=bearer(ADMIN)),
            await create(service, tenant_id="t"),
            await revoke(service, "x"),
        ]
    assert [outcome(it) for it in answers] == [(403, "FORBIDDEN")] * 3
    messages = [it.json()["error"]["message"].rpartition(" ")[2] for it in answers]
    assert messages == ["list", "create", "revoke"]


async def test_a_list_can_be_limited_to_one_tenant(service: Service) -> None:
    token = await loaded(service, tenant="a")
    file_token(tenant="b")
    file_token(tenant=None, may=[OperatorRight.AUDIT])
    await reload(service)
    for who in (ADMIN, token):
        shown = (await listed(service, who, tenant_id="a"))["tokens"]
        assert [it["tenant_id"] for it in shown] == ["a"]
    refused = await service.http.get(PATH, params={"tenant_id": "b"}, headers=bearer(token))
    assert outcome(refused) == (403, "FORBIDDEN")


def write_tokens(count: int) -> None:
    """Write tokens of two tenants; one in a hundred has no creation time."""
    entries = [
        TokenEntry(
            id=f"t{number}",
            hash=sha256_of(str(number)),
            principal=Principal(tenant_id="a" if number % 2 else "b"),
            created=None if number % 100 == 3 else datetime.fromtimestamp(number // 7, UTC),
        )
        for number in range(count)
    ]
    TOKENS_FILE.write_bytes(b"".join(map(dump_line, entries)))


async def test_ten_thousand_tokens_are_listed_in_pages_newest_first(service: Service) -> None:
    write_tokens(10_000)
    token = await loaded(service, tenant="b")
    for who, count in ((ADMIN, 10_001), (token, 5_001)):
        shown: list[dict[str, Any]] = []
        page: dict[str, Any] = {"next_cursor": None}
        while "next_cursor" in page:
            cursor = {"cursor": page["next_cursor"]} if shown else {}
            page = await listed(service, who, limit=1000, **cursor)
            shown += page["tokens"]
        assert len({it["id"] for it in shown}) == len(shown) == count
        created = [it["created"] for it in shown if "created" in it]
        assert created == sorted(created, reverse=True)


async def test_a_page_continues_after_its_last_token_was_removed(
    service: Service,
) -> None:
    write_tokens(20)
    await reload(service)
    every = [it["id"] for it in (await listed(service))["tokens"]]
    page = await listed(service, limit=5)
    await revoke(service, page["tokens"][-1]["id"])
    rest = await listed(service, cursor=page["next_cursor"])
    assert [it["id"] for it in page["tokens"] + rest["tokens"]] == every
    assert "next_cursor" not in rest


async def test_an_expired_token_is_listed_as_expired(service: Service) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    _, entry = add_token(TOKENS_FILE, Principal(tenant_id="a"), expires=past)
    await reload(service)
    (shown,) = (await listed(service))["tokens"]
    assert (shown["id"], shown["is_expired"]) == (entry.id, True)


async def test_only_operators_of_all_tenants_see_problems_of_the_file(service: Service) -> None:
    token = await loaded(service)
    with TOKENS_FILE.open("a") as file:
        file.write("{}\n")
    await reload(service)
    assert (await listed(service))["problems"] == ["line 2: id: is missing"]
    assert "problems" not in await listed(service, token)


@pytest.fixture
def no_folder(tmp_path: Path) -> Path:
    """A path that not even root can write."""
    file = tmp_path / "no-folder"
    file.write_text("")
    return file / "tokens.jsonl"


async def test_an_unwritable_file_is_reported(no_folder: Path) -> None:
    settings = {**token_settings(), "tokens_file": no_folder}
    async with running(**settings, admin_token=ADMIN) as service:
        for answer in (await create(service, tenant_id="t"), await revoke(service, "x")):
            assert outcome(answer) == (409, "CONFIG_READ_ONLY")
            assert "no-folder" not in answer.text
        (problem,) = (await listed(service))["problems"]
        assert problem.startswith("the file cannot be read: ")


async def test_tokens_created_in_parallel_are_all_stored(service: Service) -> None:
    made = await asyncio.gather(*(create(service, tenant_id="t") for _ in range(20)))
    tokens = {it.json()["token"] for it in made}
    assert {it.hash for it in read_lines(TOKENS_FILE.read_bytes()).entries} == {
        sha256_of(token) for token in tokens
    }
    answers = [await service.http.get(TOOLS, headers=bearer(token)) for token in tokens]
    assert {it.status_code for it in answers} == {200}


async def test_each_use_is_recorded_and_no_token_is_in_the_log(service: Service) -> None:
    token = await loaded(service, tenant=None, may=[TOKENS, "audit"])
    maker = entry_of(token).id
    with capture_logs() as lines:
        made = (await create(service, token, tenant_id="t", rights=["audit"])).json()
        await create(service, token, tenant_id="t", rights=["config"])
        await listed(service, token)
        await revoke(service, made["id"], token)
        await revoke(service, made["id"], token)
    found = [line for line in lines if line.get("right") == "tokens"]
    assert [(it["event"], it["code"], it.get("affected_token_id")) for it in found] == [
        ("token.created", "OK", made["id"]),
        ("request.refused", "FORBIDDEN", None),
        ("operator.right_used", "OK", None),
        ("token.revoked", "OK", made["id"]),
        ("request.refused", "NOT_FOUND", made["id"]),
    ]
    assert {it["token_id"] for it in found} == {maker}
    assert [it.get("tenant_id") for it in found] == ["t", "t", None, "t", None]
    assert found[0]["rights_given"] == ["audit"]
    changes = [it for it in lines if it["event"] == "tokens.changed"]
    assert [it.get("added") or it["removed"] for it in changes] == [[made["id"]]] * 2
    text = repr(lines)
    assert (made["token"] in text, sha256_of(made["token"]) in text) == (False, False)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({}, "tenant_id"),
        ({"tenant_id": "a\nb"}, "tenant_id"),
        ({"tenant": "a", "rights": ["audit"]}, "tenant"),
        ({"tenant_id": "t", "user_id": ""}, "user_id"),
        ({"tenant_id": "t", "roles": ["x" * 10_000]}, "roles.0"),
        ({"tenant_id": "t", "roles": ["x"] * 101}, "roles"),
        ({"tenant_id": "t", "asserts_users": 1}, "asserts_users"),
        ({"tenant_id": "t", "asserts_users": True, "user_id": "jo"}, "asserts_users"),
        ({"tenant_id": "t", "asserts_users": True, "roles": ["x"]}, "asserts_users"),
        ({"tenant_id": "t", "agents": []}, "agents"),
        ({"tenant_id": "t", "documents": ["\u0085"]}, "documents.0"),
        ({"tenant_id": "t", "documents": [str(it) for it in range(1001)]}, "documents"),
        ({"rights": ["everything"]}, "rights.0"),
        ({"tenant_id": "t", "note": "x" * 1001}, "note"),
        ({"tenant_id": "t", "note": "\x1b[31m"}, "note"),
        ({"tenant_id": "t", "expires": "2001-01-01"}, "expires"),
        ({"tenant_id": "t", "expires": "soon"}, "expires"),
        ({"tenant_id": "t", "expires": 90}, "expires"),
        ({"tenant_id": "t", "expires": "999999w"}, "expires"),
        ({"tenant_id": "t", "expires": "9999-12-31T23:59:59-23:00"}, "expires"),
    ],
)
async def test_the_error_for_invalid_input_names_the_field(
    service: Service, wanted: dict[str, Any], field: str
) -> None:
    answer = await create(service, **wanted)
    assert outcome(answer) == (422, "INVALID_REQUEST")
    assert answer.json()["error"]["details"]["field"] == field
    assert not TOKENS_FILE.exists()


async def test_invalid_unicode_is_refused(service: Service) -> None:
    body = b'{"tenant_id": "t", "note": "\\ud800"}'
    answer = await service.http.post(PATH, content=body, headers=bearer(ADMIN))
    assert outcome(answer) == (422, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("method", "query", "field"),
    [
        ("GET", {"tenant": "t"}, "tenant"),
        ("GET", {"cursor": "1"}, "cursor"),
        ("GET", {"limit": "1001"}, "limit"),
        ("DELETE", {}, "token_id"),
        ("DELETE", {"token_id": "a/b"}, "token_id"),
        ("DELETE", {"token_id": ["a", "b"]}, "token_id"),
    ],
)
async def test_the_error_for_a_malformed_query_names_the_field(
    service: Service, method: str, query: dict[str, Any], field: str
) -> None:
    answer = await service.http.request(method, PATH, params=query, headers=bearer(ADMIN))
    assert outcome(answer) == (422, "INVALID_REQUEST")
    assert answer.json()["error"]["details"]["field"] == field
