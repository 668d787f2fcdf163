"""The ``audit`` commands: follow, find and verify records.

They read the audit files, also while the gateway writes them. Records go to stdout as lines of
JSON, errors to stderr.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json

from mcp_tools_proxy.cli.output import counted, echo, fail, print_json_text
from mcp_tools_proxy.settings.observability import AuditSettings, read_key
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.telemetry.audit.audit_paths import audit_files
from mcp_tools_proxy.telemetry.audit.hash_chain import Head
from mcp_tools_proxy.telemetry.audit.record_search import (
    RecordFilter,
    as_timestamp,
    search_files,
    seq_of,
)
from mcp_tools_proxy.telemetry.audit.verification import Verification, verify
from mcp_tools_proxy.wire.identifiers import server_id_of

Load = Callable[[], AuditSettings]

FOLLOW_S = 0.2
"""Seconds between two reads of a followed file."""

_MAX_SEQ = 10**18

FOLLOWED = 20
"""Records read per page while following; usually few are new."""

_File = Annotated[
    Path | None,
    typer.Argument(help="The audit file; by default that of MCP_PROXY_AUDIT.", show_default=False),
]
_Heads = Annotated[
    list[str] | None,
    typer.Option(
        "--head",
        metavar="SEQ:MAC",
        help="A head from the log (event audit.head), to detect a truncated file. May be repeated.",
    ),
]
_UnsignedUntil = Annotated[
    int,
    typer.Option(
        "--unsigned-until",
        metavar="SEQ",
        help="Number of the last record written without a key. By default every record must be "
        "signed.",
    ),
]
_KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", help="The key file; by default that of MCP_PROXY_AUDIT_KEY_FILE."),
]


def audit_app(load: Load) -> typer.Typer:
    """Build the commands; ``load`` reads their settings."""
    app = typer.Typer(
        help="Search, follow and verify the audit log.\n\nRecords are printed as JSON, one a line.",
        rich_markup_mode=None,
    )
    _add_tail(app, load)
    _add_find(app, load)
    _add_verify(app, load)
    return app


def _add_tail(app: typer.Typer, load: Load) -> None:
    @app.command("tail")
    def tail_command(
        file: _File = None,
        lines: Annotated[
            int, typer.Option("-n", "--lines", min=0, help="Number of records to print.")
        ] = 10,
        follow: Annotated[
            bool, typer.Option("-f", "--follow", help="Print new records as they are written.")
        ] = False,
    ) -> None:
        """Print the newest records, oldest first; with --follow, also new ones."""
        path = _path(file, load)
        newest = _find(path, RecordFilter(), lines)
        for record in reversed(newest):
            _print(to_json(record))
        if follow:
            last = newest or _find(path, RecordFilter(), 1)
            try:
                for line in _new_lines(path, seq_of(last[0]) if last else 0):
                    _print(line)
            except KeyboardInterrupt:
                raise typer.Exit(130) from None


def _add_find(app: typer.Typer, load: Load) -> None:
    @app.command("find")
    def find_command(
        file: _File = None,
        tenant: Annotated[str | None, typer.Option(help="The tenant of the call.")] = None,
        user: Annotated[str | None, typer.Option(help="The user of the call.")] = None,
        agent: Annotated[str | None, typer.Option(help="The agent profile.")] = None,
        tool: Annotated[str | None, typer.Option(help="A tool, prompt or resource.")] = None,
        server: Annotated[str | None, typer.Option(help="A downstream server.")] = None,
        document: Annotated[str | None, typer.Option(help="The id of a document.")] = None,
        code: Annotated[str | None, typer.Option(help="An error code, OK or CANCELLED.")] = None,
        event: Annotated[str | None, typer.Option(help="The event, such as tool.call.")] = None,
        trace: Annotated[str | None, typer.Option(help="The trace id.")] = None,
        token: Annotated[str | None, typer.Option(help="The id of a token.")] = None,
        since: Annotated[
            str | None, typer.Option(help="Earliest time, ISO 8601; UTC by default.")
        ] = None,
        until: Annotated[
            str | None, typer.Option(help="Latest time, ISO 8601; UTC by default.")
        ] = None,
        limit: Annotated[
            int, typer.Option(min=1, help="Print only this many of the newest.")
        ] = 1000,
    ) -> None:
        """Print the records that match all options, oldest first.

        Exits with 1 if none match.
        """
        wanted = RecordFilter(
            tenant_id=tenant,
            user_id=user,
            agent=agent,
            tool=tool,
            server=server and server_id_of(server),
            doc_id=document,
            code=code,
            event=event,
            trace_id=trace,
            token_id=token,
            since=_timestamp(since),
            until=_timestamp(until),
        )
        found = _find(_path(file, load), wanted, limit)
        for record in reversed(found):
            _print(to_json(record))
        if not found:
            fail("no matching records", 1)


def _add_verify(app: typer.Typer, load: Load) -> None:
    @app.command("verify")
    def verify_command(
        file: _File = None,
        head: _Heads = None,
        key_file: _KeyFile = None,
        unsigned_until: _UnsignedUntil = 0,
    ) -> None:
        """Check that no record was changed, lost or moved, and no file truncated or removed.

        Exits with 1 if it finds a problem. Files removed by rotation are only a note. Without a
        key, only the record numbers are checked. The audit of unauthenticated requests, in files
        beside this one, is checked as well.
        """
        settings = load()
        try:
            key = read_key(key_file or settings.audit_key_file)
        except ValueError as error:
            fail(str(error))
        heads = [_head(text) for text in head or ()]
        path = _path(file, load)
        found = _verified(path, key, heads, unsigned_until)
        is_signed = key is not None
        _report(found, path, is_signed=is_signed, with_head=bool(heads))
        good = found.good
        if found.unauthenticated_file is not None:
            companion = path.with_name(found.unauthenticated_file)
            # its numbers are separate; without a key, no record of it is signed
            unsigned = _MAX_SEQ if unsigned_until else 0
            good = _verify_companion(companion, key, unsigned, is_signed=is_signed) and good
        if not good:
            raise typer.Exit(1)


def _path(file: Path | None, load: Load) -> Path:
    path = file or load().audit_path
    if path is None:
        fail(f"{variable('audit')} is log, so there is no audit file; name one")
    try:
        files = audit_files(path)
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    if not files:
        fail(f"{path}: audit file not found")
    return path


def _find(path: Path, wanted: RecordFilter, limit: int) -> Sequence[Mapping[str, object]]:
    """Return the newest matching records, newest first."""
    found: list[Mapping[str, object]] = []
    cursor: int | None = None
    while len(found) < limit:
        try:
            page = search_files(path, wanted, cursor=cursor, limit=min(1000, limit - len(found)))
        except OSError as error:
            fail(f"{path}: {error.strerror}")
        found += page.records
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _verified(
    path: Path, key: bytes | None, heads: Sequence[Head], unsigned_until: int
) -> Verification:
    try:
        return verify(path, key, heads, unsigned_until=unsigned_until)
    except OSError as error:
        fail(f"{path}: {error.strerror}")


def _verify_companion(
    path: Path, key: bytes | None, unsigned_until: int, *, is_signed: bool
) -> bool:
    """Verify the audit of unauthenticated requests; return whether it is intact."""
    try:
        found = verify(path, key, unsigned_until=unsigned_until)
    except FileNotFoundError:
        echo(f"problem: {path} is missing, although the audit file beside it refers to it")
        return False
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    _report(found, path, is_signed=is_signed, with_head=True)
    return found.good


def _report(found: Verification, path: Path, *, is_signed: bool, with_head: bool) -> None:
    for note in found.notes:
        echo(f"note: {note}")
    for problem in found.problems:
        echo(f"problem: {problem}")
    checked = "numbers and signatures" if is_signed else "numbers only, without a key,"
    verdict = "are intact" if found.good else "are NOT intact"
    echo(
        f"{path}: {counted(found.records, 'record')}, {found.first_seq} to {found.head.seq}: "
        f"{checked} {verdict}"
    )
    if found.head.mac:
        echo(f"head: {found.head}")
    if found.good and not with_head:
        echo("to detect a truncated file, pass --head with a head from the log")


def _new_lines(path: Path, last_seq: int) -> Iterator[bytes]:
    """Yield the records after ``last_seq``, across rotations, until interrupted."""
    while True:
        time.sleep(FOLLOW_S)
        new: list[Mapping[str, object]] = []
        cursor: int | None = None
        while True:
            page = search_files(path, RecordFilter(), cursor=cursor, limit=FOLLOWED)
            new += [it for it in page.records if seq_of(it) > last_seq]
            cursor = page.next_cursor
            if cursor is None or cursor <= last_seq + 1:
                break
        for record in reversed(new):
            last_seq = seq_of(record)
            yield to_json(record)


def _head(text: str) -> Head:
    seq, _, mac = text.partition(":")
    if not seq.isascii() or not seq.isdigit():
        raise typer.BadParameter("it must be SEQ:MAC, as in the log line audit.head")
    return Head(int(seq), mac)


def _timestamp(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        time_ = datetime.fromisoformat(text)
        return as_timestamp(time_.replace(tzinfo=UTC) if time_.tzinfo is None else time_)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a time; write 2026-11-25T14:03") from None


def _print(line: bytes) -> None:
    print_json_text(line.decode())
