"""``check`` warns of a process shared by callers of several tenants."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.check_command import check, write
from tests.support.configuration import Json
from tests.support.tokens import TOKENS_FILE, file_token, jwt_settings

pytestmark = pytest.mark.e2e

EVERYWHERE = "0.0.0.0"  # noqa: S104 - nothing listens
WORDS = "is one process for the callers of all tenants"
MEMORY: Json = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}


def is_warned(**settings: object) -> bool:
    write(Path.cwd() / "config", memory=MEMORY, away={"url": "http://127.0.0.1:9/mcp"})
    environment = {f"MCP_PROXY_{name.upper()}": _text(value) for name, value in settings.items()}
    code, stdout, _ = check("--offline", environment=environment)
    assert code == 0
    shown = " ".join(stdout.split())
    assert (WORDS in shown) is ("keeps what callers told it to remember" in shown)
    assert shown.count(WORDS) <= 1
    return WORDS in shown


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def with_tokens(*tenants: str | None) -> Mapping[str, object]:
    for tenant in tenants:
        file_token(tenant=tenant, admin=tenant is None)
    return {"auth_mode": "token", "tokens_file": TOKENS_FILE}


def test_jwts_can_be_of_several_tenants() -> None:
    assert is_warned(**jwt_settings())


@pytest.mark.parametrize(
    ("tenants", "several"),
    [(("a", "b"), True), (("a", "a"), False), (("a", None), False), ((None,), False)],
)
def test_tokens_of_the_file_can_be_of_several_tenants(
    tenants: tuple[str | None, ...], *, several: bool
) -> None:
    assert is_warned(**with_tokens(*tenants)) is several


@pytest.mark.parametrize(
    ("settings", "several"),
    [
        ({}, False),
        ({"allowed_hosts": "gateway.example.com"}, True),
        ({"host": EVERYWHERE}, True),
        ({"host": EVERYWHERE, "allowed_hosts": "localhost"}, False),
    ],
)
def test_without_tokens_callers_can_name_any_tenant(
    settings: Mapping[str, object], *, several: bool
) -> None:
    assert is_warned(**settings) is several
