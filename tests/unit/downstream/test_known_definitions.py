import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.server import CallerTexts, ServerConfig, Transport
from mcp_tools_proxy.downstream import known_definitions
from mcp_tools_proxy.downstream.discovery import discover
from mcp_tools_proxy.downstream.known_definitions import KnownDefinitions, fingerprint
from tests.support.captured_logs import capture_logs
from tests.support.tables import each_row
from tests.unit.downstream.fake_server import FakeConnection, FakeServer, tool
from tests.unit.downstream.observed_session import make_config

SECRET = "s3cret-of-the-entry"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "definitions"


async def offered() -> Snapshot:
    server = FakeServer(tool("add", description="Adds."), tool("odd", inputSchema=[]))
    server.capabilities = {"tools": {}, "prompts": {}, "resources": {}}
    server.lists["prompts/list"] = [{"name": "hello"}]
    server.lists["resources/list"] = [{"uri": "test://a", "name": "a"}]
    server.lists["resources/templates/list"] = [{"uriTemplate": "test://a/{id}", "name": "t"}]
    return await discover(FakeConnection(server, lambda: None), None, timeout_s=5)


def put_file(path: Path) -> None:
    path.write_text("a file")


def open_to_all(path: Path) -> None:
    path.chmod(0o777)


def make_older(folder: Path, used_at: int) -> None:
    for path in folder.iterdir():
        os.utime(path, (used_at, used_at))


def file_in(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


async def test_all_lists_are_restored_and_marked_as_stale(folder: Path) -> None:
    snapshot = await offered()
    await KnownDefinitions(folder).save(make_config(), snapshot)
    found = await KnownDefinitions(folder).load(make_config())
    assert found is not None
    assert found.by_category == snapshot.by_category
    assert [*found.checks] == ["add"]
    assert (found.is_remembered, found.has_template_for("test://a/1")) == (True, True)


async def test_the_file_is_private_and_does_not_contain_secrets(folder: Path) -> None:
    config = make_config(headers={"Authorization": SECRET})
    await KnownDefinitions(folder).save(config, await offered())
    path = file_in(folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET.encode() not in path.read_bytes()
    assert SECRET not in path.name


ENTRY = make_config(url="http://127.0.0.1:1/mcp", headers={"A": "1"})


@pytest.mark.parametrize(
    "other",
    [
        make_config("another", url="http://127.0.0.1:1/mcp", headers={"A": "1"}),
        make_config(url="http://127.0.0.1:2/mcp", headers={"A": "1"}),
        make_config(url="http://127.0.0.1:1/mcp", headers={"A": "2"}),
        make_config(url="http://127.0.0.1:1/mcp", headers={"A": "1"}, transport=Transport.SSE),
        make_config(
            url="http://127.0.0.1:1/mcp",
            headers={"A": "1"},
            caller_texts=CallerTexts(headers={"B": CallerTemplate((CallerPart.USER_ID,))}),
        ),
    ],
    ids=["id", "url", "header", "transport", "caller"],
)
async def test_definitions_are_not_shared_between_entries(
    folder: Path, other: ServerConfig
) -> None:
    await KnownDefinitions(folder).save(ENTRY, await offered())
    assert await KnownDefinitions(folder).load(other) is None


@each_row(
    "fields",
    [{"call_timeout_s": 1.0}, {"secrets": frozenset("abc")}, {"name": "Notes"}],
    ids=["limit", "secrets", "name"],
)
def test_fields_unrelated_to_the_servers_identity_do_not_change_the_fingerprint(
    fields: dict[str, Any],
) -> None:
    assert fingerprint(make_config(**fields)) == fingerprint(make_config())


def test_the_order_of_variables_does_not_change_the_fingerprint() -> None:
    one, other = make_config(env={"a": "1", "b": "2"}), make_config(env={"b": "2", "a": "1"})
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"7", b"{}", b'{"lists": {"tools": 7}, "instructions": null}'],
)
async def test_a_damaged_file_is_logged_and_replaced(folder: Path, content: bytes) -> None:
    definitions, snapshot = KnownDefinitions(folder), await offered()
    await definitions.save(make_config(), snapshot)
    file_in(folder).write_bytes(content)
    with capture_logs() as lines:
        assert await definitions.load(make_config()) is None
    assert [line["event"] for line in lines] == ["server.definitions_not_kept"]
    await definitions.save(make_config(), snapshot)
    assert await definitions.load(make_config()) is not None


async def test_oversized_definitions_are_not_stored(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions = KnownDefinitions(folder)
    monkeypatch.setattr(known_definitions, "MAX_BYTES", 10)
    with capture_logs() as lines:
        await definitions.save(make_config(), await offered())
        assert await definitions.load(make_config()) is None
    assert [line["event"] for line in lines] == ["server.definitions_not_kept"]


async def test_a_folder_that_cannot_be_written_is_logged_once(folder: Path) -> None:
    put_file(folder)
    definitions, snapshot = KnownDefinitions(folder), await offered()
    with capture_logs() as lines:
        for name in ("a", "b"):
            await definitions.save(make_config(name), snapshot)
    assert len(lines) == 1


async def test_a_folder_writable_by_others_is_not_used(folder: Path) -> None:
    await KnownDefinitions(folder).save(make_config(), await offered())
    open_to_all(folder)
    assert await KnownDefinitions(folder).load(make_config()) is None


async def test_files_unused_for_a_long_time_are_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_definitions, "MAX_FILES", 2)
    definitions, snapshot = KnownDefinitions(folder), await offered()
    for age, name in enumerate(("c", "b")):
        await definitions.save(make_config(name), snapshot)
        make_older(folder, age)
    assert await definitions.load(make_config("c")) is not None
    await definitions.save(make_config("a"), snapshot)
    found = [await definitions.load(make_config(name)) is not None for name in ("a", "b", "c")]
    assert found == [True, False, True]
