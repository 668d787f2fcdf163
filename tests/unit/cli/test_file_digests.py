"""The digests of files by their stamps."""

import time
from contextlib import closing
from pathlib import Path

import pytest

from mcp_tools_proxy.cli.documents.document_stores import Unusable
from mcp_tools_proxy.cli.documents.file_digests import FileDigests, KnownDigest
from mcp_tools_proxy.cli.documents.source_folder import FileStamp

OLD = KnownDigest(FileStamp(1, 2, 3), "digest")


def test_a_digest_is_known_in_the_next_run(tmp_path: Path) -> None:
    with closing(FileDigests(tmp_path / "cache", tmp_path)) as digests:
        digests.keep({"b/\udcff.md": OLD})
    with closing(FileDigests(tmp_path / "cache", tmp_path)) as again:
        assert again.load() == {"b/\udcff.md": OLD}
    with closing(FileDigests(tmp_path / "cache", tmp_path / "other")) as other:
        assert other.load() == {}


def test_the_digest_of_a_file_that_has_just_changed_is_not_kept(tmp_path: Path) -> None:
    digests = FileDigests(tmp_path / "cache", tmp_path)
    now = time.time_ns()
    digests.keep(
        {"a": KnownDigest(FileStamp(now, 1, 1), "x"), "b": KnownDigest(FileStamp(1, now, 1), "x")}
    )
    assert digests.load() == {}
    digests.close()


def test_only_one_run_at_a_time_has_a_source(tmp_path: Path) -> None:
    first, second = (FileDigests(tmp_path / "cache", tmp_path) for _ in range(2))
    with first.locked("t", "share"):
        with second.locked("t", "other"), second.locked("u", "share"):
            pass
        with pytest.raises(Unusable), second.locked("t", "share"):
            pass
    with second.locked("t", "share"):
        pass


def test_an_unusable_cache_only_costs_time(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("no folder")
    digests = FileDigests(cache, tmp_path)
    with digests.locked("t", "share"):
        digests.keep({"a": OLD})
        assert digests.load() == {}
    digests.close()
