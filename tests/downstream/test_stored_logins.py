"""Whether an owner has a login that a call could use is checked without a request to anybody."""

from dataclasses import replace
from pathlib import Path

import pytest

from mcp_tools_proxy.domain.oauth.logins import LoginBinding
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthWeb
from mcp_tools_proxy.downstream.oauth.stored_logins import LoginNeeded, StoredLogins
from mcp_tools_proxy.logins.file_logins import FileLogins
from mcp_tools_proxy.logins.login_sealer import LoginSealer
from tests.support.stored_logins import ANA, BINDING, SEALER, make_login

LONG_AFTER = 2_000_000.0
"""A time at which the token of the login has ended."""


async def check(
    logins: StoredLogins,
    *,
    issuer: str | None = None,
    resource: str | None = None,
    client_id: str | None = None,
) -> str:
    try:
        await logins.check(ANA, issuer=issuer, resource=resource, client_id=client_id)
    except LoginNeeded:
        return "needed"
    return "found"


def stored_logins(folder: Path, now: float = 0.0, sealer: LoginSealer = SEALER) -> StoredLogins:
    return StoredLogins(OAuthWeb(), FileLogins(folder), sealer, lambda: now)


async def test_a_login_is_found_by_its_owner(tmp_path: Path) -> None:
    logins = stored_logins(tmp_path)
    assert await check(logins) == "needed"
    await logins.keep(make_login())
    assert await check(logins) == "found"
    assert await check(stored_logins(tmp_path, sealer=LoginSealer([b"another key"]))) == "needed"


@pytest.mark.parametrize(
    ("bound", "found"),
    [
        (BINDING, "found"),
        (replace(BINDING, resource="https://other.example/mcp"), "needed"),
        (replace(BINDING, issuer="https://evil.example"), "needed"),
        (replace(BINDING, client_id="another"), "needed"),
    ],
)
async def test_a_login_for_something_else_is_none(
    tmp_path: Path, bound: LoginBinding, found: str
) -> None:
    logins = stored_logins(tmp_path)
    await logins.keep(make_login(binding=bound))
    wanted = {"issuer": BINDING.issuer, "resource": BINDING.resource, "client_id": "gateway"}
    assert await check(logins, **wanted) == found
    assert await FileLogins(tmp_path).find(ANA) is not None


async def test_a_login_that_has_ended_counts_while_it_can_be_renewed(tmp_path: Path) -> None:
    late = stored_logins(tmp_path, LONG_AFTER)
    await late.keep(make_login())
    assert await check(late) == "found"
    stored = await FileLogins(tmp_path).find(ANA)
    assert stored is not None
    await FileLogins(tmp_path).replace(stored, stored.sealed, refresh_sent=True)
    assert await check(late) == "needed"
    assert await check(stored_logins(tmp_path)) == "found"
    await late.keep(make_login(refresh_token=None))
    assert await check(late) == "needed"
