"""A stdio server that callers of several tenants share is warned about."""

from pathlib import Path

import pytest

from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.config.oauth.auth_rules import OAuthSupport
from mcp_tools_proxy.config.texts.caller_rules import IdentitySupport
from tests.support.configuration import Config, Json

STDIO: Json = {"command": "npx", "args": ["-y", "@playwright/mcp"]}


@pytest.mark.parametrize(
    ("entry", "issuer", "words"),
    [
        (STDIO, "https://login.example", "a browser"),
        ({"command": "mcp-server-memory"}, "https://login.example", "remember"),
        ({"command": "other"}, "https://login.example", "may keep data"),
        (STDIO, None, None),
        ({**STDIO, "isolation": "shared"}, "https://login.example", None),
        ({**STDIO, "isolation": "tenant"}, "https://login.example", None),
        ({"url": "https://a.example"}, "https://login.example", None),
    ],
)
def test_a_shared_process_is_warned_about(
    tmp_path: Path, entry: Json, issuer: str | None, words: str | None
) -> None:
    Config(servers={"s": entry}).write(tmp_path)
    loaded = load_configuration(
        tmp_path,
        {},
        call_timeout_s=1,
        max_result_bytes=1,
        identity=IdentitySupport(oauth=OAuthSupport(jwt_issuer=issuer)),
    )
    messages = [it.message for it in loaded.warnings]
    assert len(messages) == (words is not None)
    assert all(words is not None and words in it for it in messages)
