"""Checks audit files for changed, lost, moved or inserted records, and for a truncated tail."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from pydantic_core import from_json

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.telemetry.audit.audit_paths import opened_files
from mcp_tools_proxy.telemetry.audit.hash_chain import (
    NEW_FILE,
    NO_HEAD,
    OPENED,
    REMOVED,
    Head,
    SignedLine,
    sign,
    split_line,
)

MAX_PROBLEMS = 100
_BEGIN = b'{"timestamp":"'


@dataclass(slots=True)
class Verification:
    """The result of checking one audit's files; ``problems`` and ``notes`` name the place."""

    records: int = 0
    signed: int = 0
    first_seq: int = 0
    head: Head = NO_HEAD
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Harmless findings: lines torn by a crash, older files removed by rotation."""
    heads: set[Head] = field(default_factory=set)
    """The wanted heads that are records of the audit."""
    unauthenticated_file: str | None = None
    """The audit of unauthenticated requests, as named by the newest file."""

    @property
    def good(self) -> bool:
        """Whether the files show no change, loss, move or truncation."""
        return not self.problems


def verify(
    path: Path,
    key: bytes | None,
    heads: Sequence[Head] = (),
    *,
    unsigned_until: int = 0,
    is_one_of_several: bool = False,
) -> Verification:
    """Check the files of the audit at ``path``, and that they contain each of ``heads``. Blocks.

    ``heads`` come from the normal log; with ``is_one_of_several`` they can be of another audit.
    Without ``key``, only numbers are checked. With it, all records after ``unsigned_until`` must be
    signed. Raises OSError; FileNotFoundError without files.
    """
    verifier = _Verifier(key, heads, unsigned_until, is_one_of_several=is_one_of_several)
    with opened_files(path) as files:
        for file in files:
            verifier.begin_file()
            for number, line in enumerate(file, 1):
                verifier.add(f"{Path(file.name).name}:{number}", line)
    return verifier.finish()


class _Verifier:
    def __init__(
        self,
        key: bytes | None,
        heads: Sequence[Head],
        unsigned_until: int,
        *,
        is_one_of_several: bool,
    ) -> None:
        self.found = Verification()
        self._key = key
        self._heads = set(heads)
        self._is_one_of_several = is_one_of_several
        self._unsigned_until = unsigned_until
        self._unreadable: list[tuple[str, bytes]] = []
        """Invalid lines since the last record, with their places."""
        self._bad_signatures = 0
        self._files = 0
        self._older_files = 0
        """Number of rotated files when the newest file was begun."""
        self._kept = _KeptFiles()
        self._previous = ""
        """The signature of the record before the oldest file, according to that file."""

    def begin_file(self) -> None:
        """Begin the next file, the oldest first."""
        self._files += 1

    def add(self, place: str, line: bytes) -> None:
        """Check the next line."""
        record = split_line(line.rstrip(b"\n"))
        if record is None or not line.endswith(b"\n"):
            self._unreadable.append((place, line))
            return
        opening = _payload_of(record, OPENED)
        self._judge_unreadable(is_followed_by_start=opening is not None)
        if opening is not None:
            self._add_opening(place, record, opening)
        elif removal := _payload_of(record, REMOVED):
            self._kept.add_removal(removal, _time_of(line))
        if self._is_next(place, record, opening):
            self._check_signature(place, record, opening)
        self.found.records += 1
        self.found.head = record.head
        self._compare_head(place, record.head)

    def _add_opening(self, place: str, record: SignedLine, opening: Mapping[str, object]) -> None:
        """Store the statements of an opening record about other files."""
        if opening.get("begins") == NEW_FILE:
            older = opening.get("older_files")
            self._older_files = older if isinstance(older, int) else 0
        companion = opening.get("unauthenticated_file")
        self.found.unauthenticated_file = companion if isinstance(companion, str) else None
        problem = self._kept.add_opening(record.seq, opening)
        if problem is not None:
            self._report(f"{place}: {problem}")

    def finish(self) -> Verification:
        """Run the final checks, and return the result."""
        found = self.found
        if found.first_seq > 1:
            verdict, is_good = self._kept.missing_before(found.first_seq, self._previous)
            found.notes.append(verdict) if is_good else self._report(verdict)
        is_torn = bool(self._unreadable) and not self._unreadable[-1][1].endswith(b"\n")
        self._judge_unreadable(is_followed_by_start=is_torn)
        if self._files - 1 < self._older_files:
            self._report(
                f"rotated files are missing: there were {self._older_files} when the newest file "
                f"was begun, and {self._files - 1} are here"
            )
        for head in () if self._is_one_of_several else sorted(self._heads):
            if found.records and head.seq < found.first_seq:
                found.notes.append(
                    f"record {head.seq}, which --head names, is older than the files that are kept"
                )
            else:
                self._report(
                    f"the tail is cut off: the log names record {head.seq}, and the files end "
                    f"with record {found.head.seq}"
                )
        if not found.records:
            self._report("no records found: is this an audit file?")
        if self._bad_signatures and self._bad_signatures == found.signed:
            found.problems[:0] = ["all signatures are wrong: is this the key of these files?"]
        return found

    def _judge_unreadable(self, *, is_followed_by_start: bool) -> None:
        """Report invalid lines, except one before a start, which a crash leaves."""
        for place, line in self._unreadable:
            begins_a_record = line.startswith(_BEGIN) or _BEGIN.startswith(line.rstrip(b"\n"))
            if is_followed_by_start and len(self._unreadable) == 1 and begins_a_record:
                self.found.notes.append(
                    f"{place}: a crash left a line incomplete; the chain continues"
                )
            else:
                self._report(f"{place}: not a valid record: altered or inserted")
        self._unreadable.clear()

    def _is_next(
        self, place: str, record: SignedLine, opening: Mapping[str, object] | None
    ) -> bool:
        """Return whether a record has the next number; report it otherwise."""
        found, before = self.found, self.found.head
        if not found.records:
            found.first_seq = record.seq
            if opening is None or opening.get("begins") != NEW_FILE:
                self._report(f"{place}: the files begin in the middle, with record {record.seq}")
                return False
            self._previous = str(opening.get("previous", ""))
            return True
        if record.seq == before.seq + 1:
            return True
        if record.seq > before.seq:
            missing = f"{before.seq + 1} to {record.seq - 1}"
            if record.seq == before.seq + 2:
                missing = str(before.seq + 1)
            self._report(f"{place}: lost: record {missing}")
        else:
            self._report(f"{place}: moved: record {record.seq} follows record {before.seq}")
        return False

    def _check_signature(
        self, place: str, record: SignedLine, opening: Mapping[str, object] | None
    ) -> None:
        found = self.found
        if not record.mac:
            if found.signed or (self._key is not None and record.seq > self._unsigned_until):
                self._report(f"{place}: record {record.seq} has no signature")
            return
        found.signed += 1
        if self._key is None:
            return
        previous = found.head.mac
        if opening is not None and not found.records:
            previous = str(opening.get("previous", ""))
        if not hmac.compare_digest(sign(self._key, previous, record.numbered), record.mac):
            self._bad_signatures += 1
            self._report(f"{place}: changed: record {record.seq} does not match its signature")

    def _compare_head(self, place: str, head: Head) -> None:
        for wanted in [it for it in self._heads if it.seq == head.seq]:
            self._heads.remove(wanted)
            if wanted.mac == head.mac:
                self.found.heads.add(wanted)
            elif not self._is_one_of_several:
                self._report(f"{place}: changed: record {head.seq} differs from the one in the log")

    def _report(self, problem: str) -> None:
        problems = self.found.problems
        if len(problems) < MAX_PROBLEMS:
            problems.append(problem)
        elif len(problems) == MAX_PROBLEMS:
            problems.append("there are more problems")


class _KeptFiles:
    """Tracks which files rotation removed.

    Older versions did not record removals: missing files can be judged only after the first record
    that lists the existing ones.
    """

    def __init__(self) -> None:
        self._from: int | None = None
        """The number of the oldest record that should be kept; None if unknown."""
        self._removals: dict[int, tuple[Mapping[str, object], str]] = {}
        """Records of removals and their times, by the number of the file's last record."""

    def add_removal(self, removal: Mapping[str, object], time: str) -> None:
        """Record the removal of a file."""
        last = removal.get("last_seq")
        if isinstance(last, int):
            self._removals[last] = (removal, time)
            self._from = max(self._from or 0, last + 1)

    def add_opening(self, seq: int, opening: Mapping[str, object]) -> str | None:
        """Process the opening record ``seq``; return the problem that it shows, if any."""
        kept_from = opening.get("kept_from")
        if not isinstance(kept_from, int):
            return None
        expected, self._from = self._from, max(self._from or 0, kept_from)
        if opening.get("begins") == NEW_FILE and kept_from == seq > 1:
            return f"the files before record {seq} were missing when this file was begun"
        if expected is not None and kept_from > expected:
            return _without_removal(expected, kept_from)
        return None

    def missing_before(self, first_seq: int, previous: str) -> tuple[str, bool]:
        """Judge missing records before ``first_seq``.

        Return the text, and whether rotation removed them. ``previous`` is the signature of the
        last missing record.
        """
        if first_seq - 1 in self._removals:
            removal, time = self._removals[first_seq - 1]
            last = Head(first_seq - 1, str(removal.get("last_mac", "")))
            text = (
                f"the records before {first_seq} are no longer kept: {removal.get('file')}, "
                f"which ended with record {last}, was removed by rotation at {time}"
            )
            if previous and previous != last.mac:
                return f"{text}, but the next file names a different last record: {previous}", False
            return text, True
        if self._from is not None and self._from < first_seq:
            return _without_removal(self._from, first_seq), False
        return f"the records before {first_seq} are no longer kept", True


def _without_removal(first: int, end: int) -> str:
    return (
        f"records {first} to {end - 1} are missing, and rotation did not record removing their "
        "files: they were deleted"
    )


def _time_of(line: bytes) -> str:
    return line[len(_BEGIN) : len(_BEGIN) + 27].decode("ascii", "replace")


def _payload_of(record: SignedLine, event: str) -> Mapping[str, object] | None:
    if event.encode() not in record.numbered:
        return None
    try:
        content = from_json(record.numbered)
    except ValueError:
        return None
    payload = content.get("payload") if content.get("event") == event else None
    return payload if isinstance(payload, dict) else None
