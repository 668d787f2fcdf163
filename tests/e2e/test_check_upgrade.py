"""``check --upgrade``: what changed, as far as it concerns the configuration at hand."""

from pathlib import Path

import pytest

from tests.e2e.check_command import ECHO, check, write
from tests.support.mcp_servers.server_programs import raw_entry

pytestmark = pytest.mark.e2e

TITLE = "Before you upgrade"
NOTHING = "No change of this version concerns this configuration."
KEPT = {
    "MCP_PROXY_RATE_LIMIT_CALLS": "10",
    "MCP_PROXY_RATE_LIMIT_TOKENS": "51200",
    "MCP_PROXY_RATE_LIMIT_TENANT_CALLS": "600",
    "MCP_PROXY_RATE_LIMIT_TENANT_TOKENS": "200000",
    "MCP_PROXY_BLOCKLIST_KEYWORDS": "leak,dump,exfiltrate",
    "MCP_PROXY_KEEP_ALIVE_S": "5",
    "MCP_PROXY_TOOL_NAME_STYLE": "server",
}
"""The values that were the defaults."""


def test_changed_defaults_concern_who_has_not_set_them() -> None:
    code, out, _ = check("--upgrade")
    assert (code, TITLE in out, NOTHING in out) == (0, True, False)
    assert [name for name in KEPT if name not in out] == []
    assert "maxCallsInFlight" not in out, "there is no server"
    assert "maxclients" not in out, "there is no Redis"


def test_a_configuration_that_nothing_concerns_is_told_so_in_one_line() -> None:
    _, out, _ = check("--upgrade", environment=KEPT)
    assert (TITLE in out, out.splitlines().count(NOTHING)) == (False, 1)


def test_servers_bring_what_concerns_them(tmp_path: Path) -> None:
    write(tmp_path / "config", ECHO, s1=raw_entry(only=["echo"]))
    _, out, _ = check("--upgrade", environment=KEPT)
    for word in ("MCP_PROXY_STARTUP_WAIT_S", "maxCallsInFlightPerTenant", "retryable", "guard"):
        assert word in out
    assert "TRUSTED_PROXIES" not in out, "there is no authentication"


def test_authentication_brings_what_concerns_it(tmp_path: Path) -> None:
    (tmp_path / "tokens.jsonl").touch()
    tokens = {"MCP_PROXY_AUTH_MODE": "token", "MCP_PROXY_TOKENS_FILE": "tokens.jsonl"}
    _, out, _ = check("--upgrade", environment=KEPT | tokens)
    assert "MCP_PROXY_TRUSTED_PROXIES" in out
    proxied = {"MCP_PROXY_TRUSTED_PROXIES": "10.0.0.0/8"}
    _, out, _ = check("--upgrade", environment=KEPT | tokens | proxied)
    assert "MCP_PROXY_TRUSTED_PROXIES" not in out


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"MCP_PROXY_HOST": "0.0.0.0"}, "MCP_PROXY_ALLOWED_HOSTS"),  # noqa: S104 - nothing listens
        ({"MCP_PROXY_RETRIEVAL_WINDOW_URL": "http://127.0.0.1:9/"}, "retrieval.refused"),
        ({"MCP_PROXY_AUDIT": "file:a.jsonl"}, "MCP_PROXY_AUDIT_UNAUTHENTICATED_BYTES"),
    ],
    ids=["any host name", "Retrieval", "audit file"],
)
def test_a_setting_brings_what_concerns_it(settings: dict[str, str], word: str) -> None:
    assert word in check("--upgrade", environment=KEPT | settings)[1]


def test_without_the_option_nothing_of_it_is_said() -> None:
    out = check()[1] + check(environment=KEPT)[1]
    assert (TITLE in out, NOTHING in out) == (False, False)
