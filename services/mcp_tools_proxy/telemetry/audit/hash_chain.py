"""The chain of signatures in an audit file: each covers its record and the previous signature.

Pure. A record is one line of ASCII JSON that ends in ``,"seq":12}``, or with a signature in
``,"seq":12,"mac":"…"}``. ``seq`` counts records across rotated files and restarts.
"""

import hmac
import re
from typing import NamedTuple

OPENED = "audit.opened"
"""The event of the first record of each file, and of each start of the writer.

Its payload has ``begins`` (NEW_FILE or CONTINUED), ``file``, ``host``, the number of
``older_files``, and ``kept_from``, the number of the oldest kept record. With a key, ``previous``
is the previous signature, so that a file can be checked without its predecessor.
``unauthenticated_file`` names the separate audit, if set.
"""

REMOVED = "audit.file_removed"
"""The event for a file that rotation is about to remove.

Its payload has the ``file``, the numbers ``first_seq`` and ``last_seq`` of its records, and
``last_mac``, the last signature (empty without a key).
"""

NEW_FILE = "file"
CONTINUED = "start"

_END = re.compile(rb',"seq":([0-9]{1,18})(?:,"mac":"([0-9a-f]{64})")?\}')
_END_BYTES = 120
"""More than the longest end of a record."""


class Head(NamedTuple):
    """The last record of a chain: its number, and its signature (empty without a key)."""

    seq: int
    mac: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.mac}"


NO_HEAD = Head(0, "")


def finish_record(body: bytes, head: Head, key: bytes | None) -> tuple[bytes, Head]:
    """Return the line of a record that follows ``head``, and the new head.

    ``body`` is its JSON object without number and signature.
    """
    seq = head.seq + 1
    numbered = b'%b,"seq":%d}' % (body[:-1], seq)
    if key is None:
        return numbered + b"\n", Head(seq, "")
    mac = sign(key, head.mac, numbered)
    return b'%b,"mac":"%b"}\n' % (numbered[:-1], mac.encode()), Head(seq, mac)


def sign(key: bytes, previous: str, numbered: bytes) -> str:
    """Return the HMAC-SHA-256, in hex, of a record and the previous signature."""
    return hmac.digest(key, previous.encode() + b"\n" + numbered, "sha256").hex()


class SignedLine(NamedTuple):
    """A record's line: the record without its signature, its number, its signature."""

    numbered: bytes
    seq: int
    mac: str

    @property
    def head(self) -> Head:
        """The head of a chain that ends with this record."""
        return Head(self.seq, self.mac)


def split_line(line: bytes) -> SignedLine | None:
    """Return the parts of a line without its line end; None unless it is a complete record."""
    tail = line[-_END_BYTES:]
    start = tail.rfind(b',"seq":')
    end = None if start < 0 else _END.fullmatch(tail, start)
    if end is None or not line.startswith(b"{"):
        return None
    seq, mac = int(end[1]), (end[2] or b"").decode()
    if not mac:
        return SignedLine(line, seq, "")
    return SignedLine(line[: len(line) - len(tail) + end.end(1)] + b"}", seq, mac)
