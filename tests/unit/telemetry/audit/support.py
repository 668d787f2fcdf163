import time
from pathlib import Path

from mcp_tools_proxy.telemetry.audit.audit_file import AuditFile
from mcp_tools_proxy.telemetry.log_lines import line_of, timestamp
from tests.support.bounds import BOUND_S

KEY = b"0123456789abcdef0123456789abcdef"


def audit_file(
    path: Path,
    *,
    key: bytes | None = KEY,
    max_bytes: int = 10**9,
    keep_files: int = 10,
    required: bool = False,
) -> AuditFile:
    """Build an unopened audit file."""
    return AuditFile(path, key=key, max_bytes=max_bytes, keep_files=keep_files, required=required)


def record(tool: str = "read_doc_pages", **payload: object) -> dict[str, object]:
    fields = {"code": "OK", "tool": tool, "tenant_id": "acme", **payload}
    return line_of(timestamp(), "info", "tool.call", fields, "t-1")


def write(
    path: Path,
    count: int,
    *,
    key: bytes | None = KEY,
    max_bytes: int = 10**9,
    keep_files: int = 10,
) -> None:
    """Write records numbered by ``n``, as in one run of the gateway."""
    file = audit_file(path, key=key, max_bytes=max_bytes, keep_files=keep_files)
    file.open()
    for n in range(count):
        file.put(record(n=n))
    file.close()


def wait_until_written(file: AuditFile) -> None:
    deadline = time.monotonic() + BOUND_S
    while file.queued:
        assert time.monotonic() < deadline
        time.sleep(0.01)
