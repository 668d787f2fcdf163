"""Caller parts and secrets in an entry: permitted positions and requirements."""

from pathlib import Path

from mcp_tools_proxy.config.entry_rules import IdentitySupport
from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate, SecretPath
from mcp_tools_proxy.domain.configuration import Configuration
from mcp_tools_proxy.domain.server import Assertion, CallerTexts
from tests.support.configuration import Json
from tests.support.tables import each_row
from tests.unit.config.load_files import write_json

ALL = IdentitySupport(has_secrets=True, can_sign=True)
STDIO: Json = {"command": "x"}
HTTP: Json = {"url": "http://h"}
TENANT, USER, AGENT = "${caller.tenant_id}", "${caller.user_id}", "${caller.agent}"


def loaded(folder: Path, entry: Json, support: IdentitySupport = ALL) -> Configuration:
    write_json(folder, "mcp.json", {"mcpServers": {"notes": entry}})
    return load_configuration(
        folder, {"A": "a"}, call_timeout_s=60, max_result_bytes=1000, identity=support
    )


def problems(folder: Path, entry: Json, support: IdentitySupport = ALL) -> dict[str, str]:
    found = loaded(folder, entry, support).invalid.get("notes", ())
    return {it.path.removeprefix("$.mcpServers.notes"): it.message for it in found}


def test_texts_with_caller_parts_are_kept_separately(tmp_path: Path) -> None:
    headers = {"X-Tenant": TENANT, "X-Plain": "${A}", "Authorization": "Bearer ${secret:k}"}
    entry = {**HTTP, "headers": headers, "forward": ["tenant_id", "roles", "tenant_id"]}
    config = loaded(tmp_path, {**entry, "assertion": {"audience": "us"}}).servers["notes"]
    assert config.headers == {"X-Plain": "a"}
    assert config.caller_texts == CallerTexts(
        headers={
            "X-Tenant": CallerTemplate((CallerPart.TENANT_ID,)),
            "Authorization": CallerTemplate(("Bearer ", SecretPath(("k",)))),
        }
    )
    assert config.forward == (CallerPart.TENANT_ID, CallerPart.ROLES)
    assert config.assertion == Assertion(audience="us", header="X-Caller-Assertion")


def test_secrets_independent_of_the_caller_are_allowed_everywhere(tmp_path: Path) -> None:
    entry = {"args": ["-k", "${secret:k}"], "env": {"K": "${secret:k}"}, "cwd": "/s/${secret:k}"}
    config = loaded(tmp_path, STDIO | entry).servers["notes"]
    assert (config.args, config.env, config.cwd) == ((), {}, None)
    secret = SecretPath(("k",))
    assert config.caller_texts == CallerTexts(
        args=("-k", CallerTemplate((secret,))),
        env={"K": CallerTemplate((secret,))},
        cwd=CallerTemplate(("/s/", secret)),
    )


def test_an_entry_without_caller_parts_does_not_need_a_caller(tmp_path: Path) -> None:
    config = loaded(tmp_path, {**STDIO, "args": ["${A}"], "cwd": "${B}"}).servers["notes"]
    assert (config.args, config.cwd, config.needs_caller) == (("a",), "${B}", False)


SHARED = "is fixed for a session"


@each_row(
    ("entry", "path", "message"),
    [
        ({**STDIO, "env": {"T": TENANT}}, ".env.T", SHARED),
        ({**STDIO, "args": ["-t", TENANT]}, ".args[1]", SHARED),
        ({**STDIO, "cwd": f"/s/{USER}"}, ".cwd", SHARED),
        ({"url": "ws://h", "headers": {"X": AGENT}}, ".headers.X", SHARED),
        ({**HTTP, "transport": "sse", "headers": {"X": "${secret:a/${caller.tenant_id}}"}},
         ".headers.X", SHARED),
        ({**HTTP, "headers": {"X": "${caller.email}"}}, ".headers.X", "not a part of a caller"),
        ({"url": f"http://h/{TENANT}"}, ".url", "allowed only in args, cwd, env and headers"),
        ({"command": TENANT}, ".command", "allowed only in args, cwd, env and headers"),
        ({**HTTP, "headers": {"X": TENANT, "x": "a"}}, ".headers.X", "appears twice"),
        ({**HTTP, "headers": {"Mcp-Session-Id": TENANT}}, ".headers.Mcp-Session-Id", "itself"),
        ({**HTTP, "forward": ["email"]}, ".forward[0]", ""),
        ({**HTTP, "forwarded": ["tenant_id"]}, ".forwarded", "did you mean"),
        ({**HTTP, "assertions": {"audience": "us"}}, ".assertions", "did you mean"),
        ({**HTTP, "assertion": {"audience": "us", "headr": "X"}}, ".assertion.headr", ""),
        ({**HTTP, "assertion": {"audience": "us", "header": "accept"}}, ".assertion.header",
         "is the name of another header"),
        ({**HTTP, "headers": {"X": "a"}, "assertion": {"audience": "us", "header": "x"}},
         ".assertion.header", "is the name of another header"),
        ({**STDIO, "assertion": {"audience": "us"}}, ".assertion", "needs a server over HTTP"),
    ],
)  # fmt: skip
def test_entries_that_would_leak_data_between_callers_are_invalid(
    tmp_path: Path, entry: Json, path: str, message: str
) -> None:
    assert message in problems(tmp_path, entry)[path]


def test_entries_that_need_missing_settings_are_invalid(tmp_path: Path) -> None:
    entry = {**HTTP, "headers": {"X": "${secret:k}"}, "assertion": {"audience": "us"}}
    found = problems(tmp_path, entry, IdentitySupport())
    assert "MCP_PROXY_SECRETS_DIR" in found[".headers.X"]
    assert "MCP_PROXY_SIGNING_KEY_FILE" in found[".assertion"]
    assert problems(tmp_path, {**entry, "enabled": False}, IdentitySupport()) == {}


FIXED = {"env": {"T": TENANT}, "args": ["-t", TENANT], "cwd": f"/s/{TENANT}"}


@each_row(
    ("entry", "places"),
    [
        ({"isolation": "tenant", "discoveryCaller": {"tenant_id": "a"}}, set()),
        ({"isolation": "user", "discoveryCaller": {"tenant_id": "a"}}, set()),
        ({"isolation": "tenant"}, {".args[1]", ".cwd"}),
        (
            {"isolation": "shared", "discoveryCaller": {"tenant_id": "a"}},
            {".args[1]", ".cwd", ".env.T"},
        ),
        ({"isolation": "tenant", "env": {"T": USER}, "args": [], "cwd": "/"}, {".env.T"}),
        ({"isolation": "user", "env": {"T": USER}, "args": [USER], "cwd": "/"}, {".args[0]"}),
        (
            {"isolation": "user", "args": [USER], "cwd": "/"}
            | {"discoveryCaller": {"tenant_id": "a", "user_id": "u"}},
            set(),
        ),
        ({"isolation": "user", "env": {"T": AGENT}, "args": [], "cwd": "/"}, {".env.T"}),
    ],
)
def test_session_wide_caller_parts_require_matching_isolation(
    tmp_path: Path, entry: Json, places: set[str]
) -> None:
    assert problems(tmp_path, {**STDIO, **FIXED, **entry}).keys() == places
