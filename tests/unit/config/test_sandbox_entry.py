"""The sandbox of an entry, and programs allowed by the settings."""

from pathlib import Path

import pytest

from mcp_tools_proxy.config.entry_rules import StdioSupport
from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.domain.configuration import Configuration, InvalidConfig
from mcp_tools_proxy.domain.server import ListedCommand, Sandbox, StdioMode
from tests.support.configuration import Json
from tests.support.kernel import needs_confinement
from tests.support.tables import each_row
from tests.unit.config.load_files import write_json

STDIO: Json = {"command": "x"}
TENANT = "${caller.tenant_id}"


def loaded(folder: Path, entry: Json, support: StdioSupport | None = None) -> Configuration:
    write_json(folder, "mcp.json", {"mcpServers": {"notes": entry}})
    environment = {"DATA": "/srv/data", "RELATIVE": "data", "V": "1.2"}
    return load_configuration(
        folder, environment, call_timeout_s=60, max_result_bytes=1000, stdio=support
    )


def problems(folder: Path, entry: Json, support: StdioSupport | None = None) -> dict[str, str]:
    found = loaded(folder, entry, support).invalid.get("notes", ())
    return {it.path.removeprefix("$.mcpServers.notes"): it.message for it in found}


@needs_confinement
def test_the_options_of_a_sandbox_are_read(tmp_path: Path) -> None:
    written = {"network": False, "read": ["${DATA}/in"], "write": [], "memory": 2**30, "cpu": 2}
    config = loaded(tmp_path, {**STDIO, "sandbox": written}).servers["notes"]
    assert config.sandbox == Sandbox(
        network=False, read=("/srv/data/in",), write=(), memory=2**30, cpu=2
    )
    assert config.caller_texts is None


@each_row("written", [{}, {"network": True}])
def test_a_sandbox_without_restrictions_is_ignored(tmp_path: Path, written: Json) -> None:
    config = loaded(tmp_path, {**STDIO, "sandbox": written}).servers["notes"]
    assert config.sandbox is None


@needs_confinement
def test_a_path_segment_can_contain_one_caller_part(tmp_path: Path) -> None:
    entry = {**STDIO, "isolation": "tenant", "discoveryCaller": {"tenant_id": "acme"}}
    config = loaded(tmp_path, {**entry, "sandbox": {"write": [f"${{DATA}}/{TENANT}"]}})
    texts = config.servers["notes"].caller_texts
    assert texts is not None
    assert texts.sandbox is not None
    template = CallerTemplate(("/srv/data/", CallerPart.TENANT_ID))
    assert texts.sandbox.write == (template,)
    assert config.servers["notes"].needs_caller


@needs_confinement
@each_row(
    ("entry", "path", "message"),
    [
        ({"sandbox": {"netwrk": False}}, ".sandbox.netwrk", 'did you mean "network"'),
        ({"sandbox": {"network": False, "reads": []}}, ".sandbox.reads", 'did you mean "read"'),
        ({"sandbox": {"readonly": True}}, ".sandbox.readonly", "is not a known key"),
        ({"sandbox": {"Network": False}}, ".sandbox.Network", "is not a known key"),
        ({"sandboxed": {"network": False}}, ".sandboxed", 'did you mean "sandbox"'),
        ({"sanbox": {"network": False}}, ".sanbox", 'did you mean "sandbox"'),
        ({"sandbox": {"network": "false"}}, ".sandbox.network", "boolean"),
        ({"sandbox": None}, ".sandbox", "is null"),
        ({"sandbox": {"network": None}}, ".sandbox", "has null in network"),
        ({"sandbox": {"read": None}}, ".sandbox", "has null in read"),
        ({"sandbox": {"read": "/srv"}}, ".sandbox.read", "list"),
        ({"sandbox": {"read": ["srv"]}}, ".sandbox.read", "not absolute"),
        ({"sandbox": {"write": ["${RELATIVE}"]}}, ".sandbox.write", "not absolute"),
        ({"sandbox": {"write": ["~/data"]}}, ".sandbox.write", "not absolute"),
        ({"sandbox": {"write": [f"{TENANT}/x"]}}, ".sandbox.write", "not absolute"),
        ({"sandbox": {"read": ["/a\0b"]}}, ".sandbox.read[0]", "NUL"),
        ({"sandbox": {"read": ["${UNSET}"]}}, ".sandbox.read[0]", "needs UNSET"),
        ({"sandbox": {"read": ["/s/${secret:k}"]}}, ".sandbox.read[0]", "in args, cwd"),
        ({"sandbox": {"write": [f"/s/{TENANT}"]}}, ".sandbox.write[0]", "is fixed for a session"),
        ({"isolation": "user", "discoveryCaller": {"tenant_id": "a", "user_id": "u"},
          "sandbox": {"write": [f"/s/{TENANT}${{caller.user_id}}"]}},
         ".sandbox.write[0]", "two parts of the caller"),
        ({"isolation": "tenant", "sandbox": {"write": [f"/s/{TENANT}"]}},
         ".sandbox.write[0]", "discoveryCaller"),
        ({"sandbox": {"memory": 512}}, ".sandbox.memory", "1048576"),
        ({"sandbox": {"memory": "512m"}}, ".sandbox.memory", ""),
        ({"sandbox": {"cpu": 0.5}}, ".sandbox.cpu", ""),
        ({"sandbox": {"cpu": 0}}, ".sandbox.cpu", ""),
        ({"sandbox": []}, ".sandbox", ""),
    ],
)  # fmt: skip
def test_an_entry_whose_sandbox_could_be_widened_is_invalid(
    tmp_path: Path, entry: Json, path: str, message: str
) -> None:
    found = problems(tmp_path, {**STDIO, **entry})
    assert message in found[path]
    assert "notes" not in loaded(tmp_path, {**STDIO, **entry}).servers


def test_at_the_root_of_the_file_a_sandbox_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path, "mcp.json", {"mcpServers": {}, "sandbox": {"network": False}})
    with pytest.raises(InvalidConfig):
        load_configuration(tmp_path, {}, call_timeout_s=60, max_result_bytes=1000)


def test_a_disabled_server_keeps_its_variables(tmp_path: Path) -> None:
    entry = {**STDIO, "enabled": False, "sandbox": {"read": ["${UNSET}/x", "/y"]}}
    assert problems(tmp_path, entry) == {}


def test_a_sandbox_of_a_remote_server_has_a_warning(tmp_path: Path) -> None:
    config = loaded(tmp_path, {"url": "http://h", "sandbox": {"network": False}})
    (warning,) = config.warnings
    assert "is ignored" in warning.message


def test_without_programs_every_stdio_server_is_invalid(tmp_path: Path) -> None:
    off = StdioSupport(mode=StdioMode.OFF)
    assert "MCP_PROXY_STDIO is off" in problems(tmp_path, STDIO, off)[".command"]
    assert problems(tmp_path, {**STDIO, "transport": "stdio"}, off)
    assert problems(tmp_path, {**STDIO, "enabled": False}, off) == {}
    assert problems(tmp_path, {"url": "http://h"}, off) == {}


LISTED = StdioSupport(
    mode=StdioMode.LISTED,
    commands=(
        ListedCommand(command="uvx", args=("notes==1.2", "--root", "*"), env=("TOKEN",)),
        ListedCommand(command="uvx", args=("notes==1.2", f"--tenant={TENANT}")),
        ListedCommand(command="./serve", cwd="/srv/notes"),
    ),
)


@each_row(
    "entry",
    [
        {"command": "uvx", "args": ["notes==1.2", "--root", "/srv"]},
        {"command": "uvx", "args": ["notes==${V}", "--root", "/srv"], "env": {"TOKEN": "t"}},
        {"command": "./serve", "cwd": "/srv/notes"},
    ],
)
def test_a_listed_program_is_allowed(tmp_path: Path, entry: Json) -> None:
    assert problems(tmp_path, entry, LISTED) == {}


def test_caller_parts_are_compared_literally_with_the_list(tmp_path: Path) -> None:
    entry = {"command": "uvx", "args": ["notes==1.2", f"--tenant={TENANT}"]}
    isolated = {**entry, "isolation": "tenant", "discoveryCaller": {"tenant_id": "a"}}
    assert problems(tmp_path, isolated, LISTED) == {}


@each_row(
    ("entry", "path"),
    [
        ({"command": "sh", "args": ["-c", "id"]}, ".command"),
        ({"command": "/other/uvx", "args": ["notes==1.2", "--root", "/srv"]}, ".command"),
        ({"command": "uvx "}, ".command"),
        ({"command": "uvx"}, ".args"),
        ({"command": "uvx", "args": ["notes==1.3", "--root", "/srv"]}, ".args"),
        ({"command": "uvx", "args": ["notes==1.2", "--root", "/srv", "--with", "x"]}, ".args"),
        ({"command": "uvx", "args": ["notes==1.2", "--root"]}, ".args"),
        ({"command": "uvx", "args": ["notes==1.2", "--root", "--with=x"]}, ".args"),
        ({"command": "uvx", "args": ["notes==1.2", "--root", "@options"]}, ".args"),
        ({"command": "uvx", "args": ["--with", "x", "notes==1.2", "--root", "/srv"]}, ".args"),
        ({"command": "uvx", "args": ["notes==1.2", "--root", "/s"], "cwd": "/other"}, ".cwd"),
        ({"command": "./serve"}, ".cwd"),
        ({"command": "./serve", "cwd": "/srv/notes/../x"}, ".cwd"),
        ({"command": "uvx", "args": ["notes==1.2", "--root", "/s"], "env": {"PATH": "/other"}},
         ".env"),
        ({"command": "uvx", "args": ["notes==1.2", "--root", "/s"],
          "env": {"TOKEN": "t", "LD_PRELOAD": "/other/x.so"}}, ".env"),
    ],
)  # fmt: skip
def test_a_program_that_is_not_listed_is_invalid(tmp_path: Path, entry: Json, path: str) -> None:
    assert list(problems(tmp_path, entry, LISTED)) == [path]


def test_an_empty_list_forbids_all_programs(tmp_path: Path) -> None:
    assert problems(tmp_path, STDIO, StdioSupport(mode=StdioMode.LISTED))
