import subprocess
import sys
from pathlib import Path

import pytest

INDEX = """
import resource, sys, threading
from pathlib import Path
from mcp_tools_proxy.documents.search.tenant_index_entries import reader_terms
from mcp_tools_proxy.documents.search import tenant_index_files
from mcp_tools_proxy.documents.search.tenant_index_snapshot import Filters
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Document

files = tenant_index_files.IndexFiles(Path(sys.argv[1]), "acme", threading.Event())
assert files.own()

def put(doc_id, text):
    document = Document(tenant_id="acme", doc_id=doc_id, title="", pages=(text,))
    files.write([(document, head_of(document))])

def found():
    snapshot = files.open()
    filters = Filters(readers=reader_terms(Caller(tenant_id="acme", user_id="u")))
    return [snapshot.place(it).doc_id for it in snapshot.search("ladder", filters).ranked]

def names():
    return {path.name for path in Path(sys.argv[1]).glob("*/*")}

put("a", "a ladder")
"""

FULL_DISK = f"""{INDEX}
kept = names()
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
try:
    put("b", "a ladder")
except tenant_index_files.IndexDamaged:
    raise
except tenant_index_files.IndexFailure:
    pass
else:
    raise AssertionError("written")
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
assert found() == ["a"], found()
assert names() == kept, names() - kept
put("b", "a ladder")
assert sorted(found()) == ["a", "b"], found()
print("kept")
"""
"""To the engine, a limit on file sizes is like a full disk; it applies to a process."""

NO_DESCRIPTOR = f"""{INDEX}
import os
free = os.dup(0)
os.close(free)
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
try:
    files.open()
except tenant_index_files.IndexDamaged:
    raise
except tenant_index_files.IndexFailure as error:
    assert str(error) == "Too many open files", error
else:
    raise AssertionError("opened")
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
assert found() == ["a"], found()
print("kept")
"""
"""Simulates callers that use all descriptors of the process."""


@pytest.mark.parametrize("program", [FULL_DISK, NO_DESCRIPTOR], ids=["disk", "descriptors"])
def test_a_missing_system_resource_is_an_error_without_data_loss(
    program: str, tmp_path: Path
) -> None:
    done = subprocess.run(  # noqa: S603 - the text above
        [sys.executable, "-c", program, str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("kept\n", "")
