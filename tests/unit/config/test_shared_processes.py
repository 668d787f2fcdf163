from pathlib import Path

from mcp_tools_proxy.config.entry_rules import IdentitySupport
from mcp_tools_proxy.config.loader import load_configuration
from tests.support.configuration import Config, Json
from tests.support.tables import each_row

STDIO: Json = {"command": "npx", "args": ["-y", "@playwright/mcp"]}


@each_row(
    ("entry", "several", "words"),
    [
        (STDIO, True, "a browser"),
        ({"command": "mcp-server-memory"}, True, "remember"),
        ({"command": "uvx", "args": ["mem0-mcp-server"]}, True, "remember"),
        (
            {"command": "npx", "args": ["@modelcontextprotocol/server-sequential-thinking"]},
            True,
            "thoughts",
        ),
        ({"command": "other"}, True, "may keep data"),
        (STDIO, False, None),
        ({**STDIO, "isolation": "shared"}, True, None),
        ({**STDIO, "isolation": "tenant"}, True, None),
        ({"url": "https://a.example"}, True, None),
    ],
)
def test_a_process_shared_by_tenants_causes_a_warning(
    tmp_path: Path, entry: Json, several: bool, words: str | None
) -> None:
    Config(servers={"s": entry}).write(tmp_path)
    loaded = load_configuration(
        tmp_path,
        {},
        call_timeout_s=1,
        max_result_bytes=1,
        identity=IdentitySupport(has_several_tenants=lambda: several),
    )
    messages = [it.message for it in loaded.warnings]
    assert len(messages) == (words is not None)
    assert all(words is not None and words in it for it in messages)
