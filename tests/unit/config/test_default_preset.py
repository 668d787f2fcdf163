"""Selecting a preset writes one key of mcp.json and nothing more."""

import errno
import json
import os
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.config.config_folder import set_default_preset
from mcp_tools_proxy.config.json_file import with_key
from mcp_tools_proxy.config.preset_files import PresetMissing
from mcp_tools_proxy.domain.configuration import InvalidConfig
from mcp_tools_proxy.domain.errors import ConfigReadOnly
from tests.support.tables import each_row
from tests.unit.config.json_strategies import STRICT_JSON
from tests.unit.config.load_files import load, write_json

SERVERS = '"mcpServers": {"a": {"command": "x", "env": {"T": "${TOKEN}"}}}'


@pytest.mark.requirement("P-20")
@each_row(
    ("before", "after"),
    [
        (
            '{\n  "defaultPresetId": "old",\n  "mcpServers": { }\n}\n',
            '{\n  "defaultPresetId": "new",\n  "mcpServers": { }\n}\n',
        ),
        (
            f"{{\n\t{SERVERS}\n}}",
            f'{{\n\t{SERVERS},\n\t"defaultPresetId": "new"\n}}',
        ),
        (f"{{{SERVERS}}}", f'{{{SERVERS},"defaultPresetId": "new"}}'),
        ('{"mcpServers":{}}', '{"mcpServers":{},"defaultPresetId":"new"}'),
        ("{ }", '{"defaultPresetId": "new" }'),
        ('{"defaultPresetId": null}', '{"defaultPresetId": "new"}'),
        (
            '{"x": {"defaultPresetId": 1}, "defaultPresetId" : {"odd": [1]} , "z": 1.50}',
            '{"x": {"defaultPresetId": 1}, "defaultPresetId" : "new" , "z": 1.50}',
        ),
        (
            '\ufeff{\r\n  "mcpServers": {},\r\n  "n": "ä\\u00e4"\r\n}\r\n',
            '\ufeff{\r\n  "mcpServers": {},\r\n  "n": "ä\\u00e4",'
            '\r\n  "defaultPresetId": "new"\r\n}\r\n',
        ),
        ('{"default\\u0050resetId": "old"}', '{"default\\u0050resetId": "new"}'),
    ],
)
def test_everything_except_the_key_is_unchanged_byte_for_byte(
    tmp_path: Path, before: str, after: str
) -> None:
    path = write_json(tmp_path, "mcp.json", before)
    set_default_preset(tmp_path, "new")
    assert path.read_bytes() == after.encode()


def test_a_missing_file_is_created(tmp_path: Path) -> None:
    set_default_preset(tmp_path, "work")
    content = json.loads((tmp_path / "mcp.json").read_bytes())
    assert content == {"mcpServers": {}, "defaultPresetId": "work"}


def test_the_loader_reads_the_selected_preset(tmp_path: Path) -> None:
    content = write_json(tmp_path, "mcp.json", f"{{{SERVERS}}}")
    set_default_preset(tmp_path, "work")
    loaded = load(tmp_path, content.read_bytes(), {"TOKEN": "s3cret"})
    assert loaded.default_preset_id == "work"


def test_mode_and_owner_of_the_file_are_kept(tmp_path: Path) -> None:
    path = write_json(tmp_path, "mcp.json", "{}")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
    before = path.stat()
    set_default_preset(tmp_path, "work")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_a_linked_file_is_changed_behind_its_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = write_json(tmp_path / "real", "shared.json", "{}")
    link = tmp_path / "mcp.json"
    link.symlink_to("real/shared.json")
    set_default_preset(tmp_path, "work")
    assert link.is_symlink()
    assert json.loads(real.read_bytes()) == {"defaultPresetId": "work"}


def test_temporary_files_are_removed(tmp_path: Path) -> None:
    write_json(tmp_path, "mcp.json", "{}")
    set_default_preset(tmp_path, "work")
    assert os.listdir(tmp_path) == ["mcp.json"]


@each_row("content", ["{", "[]", "", '{"a": 1, "a": 2}'])
def test_a_file_that_is_not_a_json_object_is_not_modified(tmp_path: Path, content: str) -> None:
    path = write_json(tmp_path, "mcp.json", content)
    with pytest.raises(InvalidConfig):
        set_default_preset(tmp_path, "work")
    assert path.read_text() == content


def test_an_invalid_server_does_not_prevent_the_selection(tmp_path: Path) -> None:
    path = write_json(tmp_path, "mcp.json", '{"mcpServers": {"a": {}}}')
    set_default_preset(tmp_path, "work")
    assert json.loads(path.read_bytes())["defaultPresetId"] == "work"


def test_an_invalid_preset_id_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(PresetMissing):
        set_default_preset(tmp_path, "../work")
    assert os.listdir(tmp_path) == []


@each_row(
    "number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENOSPC]
)
def test_an_unwritable_file_is_reported_as_read_only(tmp_path: Path, number: int) -> None:
    def write(path: Path, content: bytes) -> None:
        raise OSError(number, os.strerror(number), str(path))

    with pytest.raises(ConfigReadOnly) as caught:
        set_default_preset(tmp_path, "work", write=write)
    assert str(tmp_path) not in caught.value.message
    assert '"persist": false' in caught.value.message


def test_a_missing_folder_is_reported_as_read_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigReadOnly) as caught:
        set_default_preset(tmp_path / "nowhere", "work")
    assert str(tmp_path) not in caught.value.message
    assert "folder (MCP_PROXY_CONFIG_DIR) does not exist; create it, or" in caught.value.message
    assert '"persist": false' in caught.value.message


def test_an_unwritable_file_system_is_reported_as_read_only(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").symlink_to("/proc/mcp.json")
    with pytest.raises(ConfigReadOnly):
        set_default_preset(tmp_path, "work")


FILES = st.dictionaries(
    st.sampled_from(["mcpServers", "defaultPresetId", '"', "\\", "}"]) | st.text(max_size=6),
    STRICT_JSON,
)
LAYOUTS = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 2, "\t"]),
        "separators": st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\r\n ")]),
        "ensure_ascii": st.booleans(),
    }
)


def kept_at_both_ends(before: str, after: str) -> int:
    """Return the lengths of the common prefix and suffix of two texts."""
    kept = 0
    while before[kept : kept + 1] == after[kept : kept + 1] != "":
        kept += 1
    ends = zip(reversed(before[kept:]), reversed(after[kept:]), strict=False)
    return kept + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))


@given(content=FILES, layout=LAYOUTS)
def test_any_file_differs_only_in_that_key(
    content: dict[str, object], layout: dict[str, object]
) -> None:
    before = " " + json.dumps(content, **layout) + "\n"  # type: ignore[arg-type] # drawn layouts
    after = with_key(before, "defaultPresetId", "new")
    assert json.loads(after) == {**content, "defaultPresetId": "new"}
    deleted = json.dumps(content.get("defaultPresetId", ""), **layout)  # type: ignore[arg-type] # same
    assert kept_at_both_ends(before, after) >= len(before) - len(deleted) - deleted.count("\n") * 2
