"""A known refused token has its id and tenant in the record (defect 10)."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.auth.revoked_tokens import KEPT, MAX_REVOKED, revoked_file
from mcp_tools_proxy.auth.token_format import new_token, read_lines, sha256_of
from mcp_tools_proxy.auth.token_store import add_token, remove_entry
from mcp_tools_proxy.domain.identity import Principal
from tests.support.captured_logs import capture_logs
from tests.support.service import EXECUTE, Service, running
from tests.support.tokens import TOKENS_FILE, bearer, token_settings

pytestmark = pytest.mark.requirement("T-02")

ACME = Principal(tenant_id="acme", user_id="u")
OVER = datetime(2020, 1, 1, tzinfo=UTC)
MESSAGE = "the token is not known here; get a new one"


async def record_of(service: Service, token: str) -> dict[str, Any]:
    """Send a refused token; check that the answer reveals nothing and return the record."""
    with capture_logs() as lines:
        answer = await service.http.post(
            EXECUTE,
            json={"tool_name": "list_available_tools", "arguments": {}},
            headers=bearer(token),
        )
    assert (answer.status_code, "acme" in answer.text) == (401, False)
    (found,) = [dict(line) for line in lines if line["event"] == "request.refused"]
    return {**found, "answered": answer.json()["error"]["message"]}


async def reload(service: Service) -> None:
    assert service.gateway.tokens is not None
    await service.gateway.tokens.load()


async def test_an_expired_token_has_its_id_in_the_record() -> None:
    token, entry = add_token(TOKENS_FILE, ACME, expires=OVER)
    async with running(**token_settings()) as service:
        record = await record_of(service, token)
    assert (record["token_id"], record["tenant_id"]) == (entry.id, "acme")


@pytest.mark.parametrize("by_hand", [False, True])
async def test_a_revoked_token_has_its_id_in_the_record(by_hand: bool) -> None:
    token, entry = add_token(TOKENS_FILE, ACME)
    async with running(**token_settings()) as service:
        if by_hand:
            TOKENS_FILE.write_bytes(b"")
        else:
            remove_entry(TOKENS_FILE, entry.id)
        await reload(service)
        record = await record_of(service, token)
        unknown = await record_of(service, new_token())
    assert (record["token_id"], record["tenant_id"]) == (entry.id, "acme")
    assert record["reason"].startswith("the token was revoked, by ")
    assert (record["answered"], unknown["answered"]) == (MESSAGE, MESSAGE)
    assert ("token_id" in unknown, unknown["reason"]) == (False, MESSAGE)


async def test_another_process_and_a_restart_know_a_revoked_token() -> None:
    token, entry = add_token(TOKENS_FILE, ACME)
    remove_entry(TOKENS_FILE, entry.id)
    kept = revoked_file(TOKENS_FILE)
    assert (kept.stat().st_mode & 0o777, token in kept.read_text()) == (0o600, False)
    async with running(**token_settings()) as service:
        assert (await record_of(service, token))["token_id"] == entry.id


async def test_it_is_unknown_after_90_days_and_a_broken_file_is_harmless() -> None:
    token, entry = add_token(TOKENS_FILE, ACME)
    remove_entry(TOKENS_FILE, entry.id)
    kept = revoked_file(TOKENS_FILE)
    line = json.loads(kept.read_text())
    line["revoked"] = (datetime.now(UTC) - KEPT - timedelta(days=1)).isoformat()
    kept.write_text(json.dumps(line) + '\n{"id": 1}\nnonsense\n\xff')
    async with running(**token_settings()) as service:
        assert "token_id" not in await record_of(service, token)


def test_the_file_size_is_bounded() -> None:
    now = datetime.now(UTC).isoformat()
    old = [
        {"id": f"t{n}", "sha256": sha256_of(str(n)), "tenant": "acme", "revoked": now}
        for n in range(MAX_REVOKED)
    ]
    revoked_file(TOKENS_FILE).write_text("".join(f"{json.dumps(it)}\n" for it in old))
    _, entry = add_token(TOKENS_FILE, ACME)
    remove_entry(TOKENS_FILE, entry.id)
    ids = [json.loads(it)["id"] for it in revoked_file(TOKENS_FILE).read_text().splitlines()]
    assert (len(ids), ids[0], ids[-1]) == (MAX_REVOKED, "t1", entry.id)


def test_a_token_can_be_revoked_if_the_list_cannot_be_written() -> None:
    _, entry = add_token(TOKENS_FILE, ACME)
    Path(f"{TOKENS_FILE}.revoked").mkdir()
    remove_entry(TOKENS_FILE, entry.id)
    assert read_lines(TOKENS_FILE.read_bytes()).entries == ()


async def test_tokens_that_expire_within_7_days_are_counted_and_marked() -> None:
    now = datetime.now(UTC)
    for days in (1, 6, 8):
        add_token(TOKENS_FILE, ACME, expires=now + timedelta(days=days))
    add_token(TOKENS_FILE, ACME, expires=OVER)
    add_token(TOKENS_FILE, ACME)
    async with running(**token_settings()) as service:
        text = (await service.http.get("/metrics")).text
    assert "mcp_proxy_tokens_expiring 2.0" in text.splitlines()
