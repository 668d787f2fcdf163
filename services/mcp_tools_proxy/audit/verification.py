"""Checks audit files: no record changed, lost, moved or put in, and no tail cut off."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic_core import from_json

from mcp_tools_proxy.audit.audit_paths import audit_files
from mcp_tools_proxy.audit.hash_chain import NO_HEAD, OPENED, Head, SignedLine, sign, split_line

MAX_PROBLEMS = 100
"""How many problems are listed one by one."""

_OPENED = b'"event":"%b"' % OPENED.encode()


@dataclass(slots=True)
class Verification:
    """What a check of the files of one audit found; ``problems`` and ``notes`` name the place."""

    records: int = 0
    signed: int = 0
    first_seq: int = 0
    head: Head = NO_HEAD
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is no problem: lines that a crash tore, older files that are not kept any more."""

    @property
    def good(self) -> bool:
        """Whether nothing was changed, lost, moved or cut off, as far as the files show."""
        return not self.problems


def verify(path: Path, key: bytes | None, heads: Sequence[Head] = ()) -> Verification:
    """Check the files of the audit at ``path``, and that each of ``heads`` is in them. Blocks.

    ``heads`` come from the normal log. Without ``key`` only the numbers can be checked. Raises
    OSError; FileNotFoundError if there is no file.
    """
    files = audit_files(path)
    if not files:
        raise FileNotFoundError(path)
    verifier = _Verifier(key, heads)
    for file in files:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                verifier.add(f"{file.name}:{number}", line)
    return verifier.finish()


class _Verifier:
    """Follows the chain from line to line."""

    def __init__(self, key: bytes | None, heads: Sequence[Head]) -> None:
        self.found = Verification()
        self._key = key
        self._heads = {head.seq: head for head in heads}
        self._unreadable: list[str] = []
        """The places of the lines since the last record that are none."""
        self._bad_signatures = 0

    def add(self, place: str, line: bytes) -> None:
        """Check the next line."""
        record = split_line(line.rstrip(b"\n"))
        if record is None or not line.endswith(b"\n"):
            self._unreadable.append(place)
            return
        opening = _opening_of(record)
        self._judge_unreadable(is_followed_by_start=opening is not None)
        if self._is_next(place, record, opening):
            self._check_signature(place, record, opening)
        self.found.records += 1
        self.found.head = record.head
        self._compare_head(place, record.head)

    def finish(self) -> Verification:
        """Check what only the end shows, and return what was found."""
        found = self.found
        self._judge_unreadable(is_followed_by_start=True)
        for head in self._heads.values():
            if found.records and head.seq < found.first_seq:
                found.notes.append(
                    f"record {head.seq}, which --head names, is older than the files that are kept"
                )
            else:
                self._report(
                    f"the tail is cut off: the log names record {head.seq}, and the files end "
                    f"with record {found.head.seq}"
                )
        if self._bad_signatures and self._bad_signatures == found.signed:
            found.problems[:0] = ["no signature is right: is this the key of these files?"]
        return found

    def _judge_unreadable(self, *, is_followed_by_start: bool) -> None:
        """Report the lines that are no records: a crash leaves one, before the next start."""
        for place in self._unreadable:
            if is_followed_by_start:
                self.found.notes.append(f"{place}: a line was torn by a crash; the chain goes on")
            else:
                self._report(f"{place}: is no record: it was changed or put in")
        self._unreadable.clear()

    def _is_next(
        self, place: str, record: SignedLine, opening: Mapping[str, object] | None
    ) -> bool:
        """Return whether a record has the number that comes next; report it if not."""
        found, before = self.found, self.found.head
        if not found.records:
            found.first_seq = record.seq
            if opening is None:
                self._report(f"{place}: the files begin in the middle, with record {record.seq}")
                return False
            if record.seq > 1:
                found.notes.append(f"the records before {record.seq} are not kept any more")
            return True
        if record.seq == before.seq + 1:
            return True
        if record.seq > before.seq:
            missing = f"{before.seq + 1} to {record.seq - 1}"
            if record.seq == before.seq + 2:
                missing = str(before.seq + 1)
            self._report(f"{place}: lost: record {missing}")
        else:
            self._report(f"{place}: moved: record {record.seq} stands behind record {before.seq}")
        return False

    def _check_signature(
        self, place: str, record: SignedLine, opening: Mapping[str, object] | None
    ) -> None:
        found = self.found
        if not record.mac:
            if found.signed:
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
            self._report(f"{place}: changed: record {record.seq} does not fit its signature")

    def _compare_head(self, place: str, head: Head) -> None:
        wanted = self._heads.pop(head.seq, None)
        if wanted is not None and wanted.mac != head.mac:
            self._report(f"{place}: changed: record {head.seq} is another one than the log names")

    def _report(self, problem: str) -> None:
        problems = self.found.problems
        if len(problems) < MAX_PROBLEMS:
            problems.append(problem)
        elif len(problems) == MAX_PROBLEMS:
            problems.append("there are more problems")


def _opening_of(record: SignedLine) -> Mapping[str, object] | None:
    """Return the payload of a record that opens a file or follows a start, else None."""
    if _OPENED not in record.numbered:
        return None
    try:
        payload = from_json(record.numbered).get("payload")
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None
