"""The ``audit`` commands: follow, find and verify records.

They read the audit files, also while the gateway writes them. Records go to stdout as lines of
JSON, errors to stderr.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json

from mcp_tools_proxy.cli.output import counted, echo, fail, print_json_text
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.settings.observability import AuditSettings, read_key
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.telemetry.audit.audit_paths import (
    UNAUTHENTICATED,
    audit_files,
    audits_in,
    audits_matching,
    has_records,
)
from mcp_tools_proxy.telemetry.audit.hash_chain import Head
from mcp_tools_proxy.telemetry.audit.record_search import (
    RecordFilter,
    as_timestamp,
    search_audits,
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
    typer.Argument(
        metavar="PATH",
        help="An audit file, or a folder for all audits in it. Default: the files of "
        "MCP_PROXY_AUDIT, with any {host} and {worker}.",
        show_default=False,
    ),
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
        """Print the newest records, oldest first; with --follow, also new ones.

        Those of several audits are merged by time.
        """
        find = _finder(file, load)
        last = {path: _last_seq(path) for path in _found(find)}
        pages = [_find(path, RecordFilter(), lines, seq + 1) for path, seq in last.items()]
        newest = _in_order(pages)
        for record in newest[max(0, len(newest) - lines) :]:
            _print(to_json(record))
        if follow:
            try:
                for line in _new_lines(find, last):
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
        run: Annotated[str | None, typer.Option(help="The id of a run.")] = None,
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

        Those of several audits are merged by time. Exits with 1 if none match.
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
            run_id=run,
            since=_timestamp(since),
            until=_timestamp(until),
        )
        found = _search(_found(_finder(file, load)), wanted, limit)
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
        beside each one, is checked as well. In several audits, each head has to be in one of them.
        """
        settings = load()
        try:
            key = read_key(key_file or settings.audit_key_file)
        except ValueError as error:
            fail(str(error))
        heads = [_head(text) for text in head or ()]
        audits = _found(_finder(file, load))
        is_of_several = len(audits) > 1 or (file is not None and file.is_dir())
        check = _Check(key, heads, unsigned_until, is_of_several=is_of_several)
        results = [*map(check.verify, audits), check.has_all_heads()]
        if not all(results):
            raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds the audits that a command reads."""

    path: Path
    find: Callable[[Path], Sequence[Path]]
    missing: str = "audit file not found"


def _finder(path: Path | None, load: Load) -> _Finder:
    if path is not None and path.is_dir():
        return _Finder(path, audits_in, "no audits in this folder")
    settings = load()
    pattern = path or settings.audit_pattern
    if pattern is None:
        fail(f"{variable('audit')} is log, so there is no audit file; name one")
    if path is None and settings.audit_path != pattern:
        return _Finder(pattern, lambda it: [*filter(has_records, audits_matching(it))])
    return _Finder(pattern, lambda it: [it] if audit_files(it) else [])


def _found(finder: _Finder) -> Sequence[Path]:
    """Return the audits; fail without one."""
    try:
        found = finder.find(finder.path)
    except OSError as error:
        fail(f"{finder.path}: {error.strerror}")
    return found or fail(f"{finder.path}: {finder.missing}")


def _search(
    audits: Sequence[Path], wanted: RecordFilter, limit: int
) -> Sequence[Mapping[str, object]]:
    """Return the newest matching records, newest first."""
    if len(audits) == 1:
        return _find(audits[0], wanted, limit)
    try:
        numbers = dict.fromkeys(audits, 0)
        page = search_audits(numbers, wanted, cursor=None, limit=limit, max_bytes=sys.maxsize)
    except OSError as error:
        fail(f"{error.filename or audits[0].parent}: {error.strerror}")
    return page.records[:limit]


def _find(
    path: Path, wanted: RecordFilter, limit: int, cursor: int | None = None
) -> Sequence[Mapping[str, object]]:
    """Return the newest matching records below a number in one audit, newest first."""
    if not limit:
        return ()
    try:
        page = search_files(path, wanted, cursor=cursor, limit=limit, max_bytes=sys.maxsize)
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    return page.records


def _last_seq(path: Path) -> int:
    return next((seq_of(record) for record in _find(path, RecordFilter(), 1)), 0)


class _Check:
    """Verifies audits, and reports the results; ``heads`` can be in any of them."""

    def __init__(
        self, key: bytes | None, heads: Sequence[Head], unsigned_until: int, *, is_of_several: bool
    ) -> None:
        self._key = key
        self._heads = heads
        self._unsigned_until = unsigned_until
        self._is_of_several = is_of_several
        self._found: set[Head] = set()

    def verify(self, path: Path) -> bool:
        """Verify an audit, and that of unauthenticated requests; return whether they are intact."""
        found = self._verify(path, self._heads, self._unsigned_until)
        if found is None:
            echo(f"problem: {path} is missing, although its {UNAUTHENTICATED} file is there")
            return False
        self._report(found, path, with_head=bool(self._heads))
        if found.unauthenticated_file is None:
            return found.good
        companion = path.with_name(found.unauthenticated_file)
        # its numbers are separate; without a key, no record of it is signed
        unsigned = _MAX_SEQ if self._unsigned_until else 0
        of_companion = self._verify(companion, self._heads if self._is_of_several else (), unsigned)
        if of_companion is None:
            echo(f"problem: {companion} is missing, although the audit file beside it refers to it")
            return False
        self._report(of_companion, companion, with_head=True)
        return found.good and of_companion.good

    def has_all_heads(self) -> bool:
        """Report heads that are in none of several audits; return whether there are none."""
        missing = [it for it in self._heads if self._is_of_several and it not in self._found]
        for head in missing:
            echo(
                f"problem: no audit has record {head}: it was changed or cut off, or its file is "
                "missing"
            )
        return not missing

    def _verify(
        self, path: Path, heads: Sequence[Head], unsigned_until: int
    ) -> Verification | None:
        """Return the result for one audit; None without files."""
        try:
            found = verify(
                path,
                self._key,
                heads,
                unsigned_until=unsigned_until,
                is_one_of_several=self._is_of_several,
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            fail(f"{path}: {error.strerror}")
        self._found |= found.heads
        return found

    def _report(self, found: Verification, path: Path, *, with_head: bool) -> None:
        for note in found.notes:
            echo(f"note: {note}")
        for problem in found.problems:
            echo(f"problem: {problem}")
        checked = (
            "numbers and signatures" if self._key is not None else "numbers only, without a key,"
        )
        verdict = "are intact" if found.good else "are NOT intact"
        echo(
            f"{path}: {counted(found.records, 'record')}, {found.first_seq} to {found.head.seq}: "
            f"{checked} {verdict}"
        )
        if found.head.mac:
            echo(f"head: {found.head}")
        if found.good and not with_head:
            echo("to detect a truncated file, pass --head with a head from the log")


def _new_lines(finder: _Finder, last: dict[Path, int]) -> Iterator[bytes]:
    """Yield the records after the ``last`` ones, across rotations, until interrupted."""
    while True:
        time.sleep(FOLLOW_S)
        audits: Sequence[Path] = ()
        with suppress(OSError):
            audits = finder.find(finder.path)  # a worker that starts can have another file
        pages = []
        for path in audits:
            new: list[Mapping[str, object]] = []
            seq, cursor = last.get(path, 0), None
            while True:
                page = search_files(path, RecordFilter(), cursor=cursor, limit=FOLLOWED)
                new += [it for it in page.records if seq_of(it) > seq]
                cursor = page.next_cursor
                if cursor is None or cursor <= seq + 1:
                    break
            last[path] = max([seq, *map(seq_of, new)])
            pages.append(new)
        for record in _in_order(pages):
            yield to_json(record)


def _in_order(pages: Sequence[Sequence[Mapping[str, object]]]) -> Sequence[Mapping[str, object]]:
    """Return the records of audits, whose newest are first, oldest first."""
    found = [record for page in pages for record in reversed(page)]
    return sorted(found, key=_time_of) if len(pages) > 1 else found


def _time_of(record: Mapping[str, object]) -> str:
    return str(record["timestamp"])


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
