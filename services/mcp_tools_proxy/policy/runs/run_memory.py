"""The memory of a run: its flags, counters and hashes of values; no text.

Flags and counters are never dropped. Values that may vouch for arguments are dropped, oldest
first, when the memory is full: forgetting them can only lead to a refusal.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from struct import Struct

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.run import Label, RunRequest, ToolLabels
from mcp_tools_proxy.policy.runs.values import (
    VALUE_BYTES,
    WORD_BYTES,
    at_path,
    has_words,
    normal_text,
    value_hash,
    word_hashes,
)

MAX_BYTES = 65_536
"""Maximum size of a run's memory; one hash takes eight bytes of it."""

MAX_VALUES = 2_000
"""Maximum number of values that may vouch; later ones replace the oldest."""

MAX_FAILURES = 3
"""Identical failures of a run after which the same call is not made again."""

MAX_INTEGER = 2**63 - 1
"""The largest integer in Cedar."""

TASK, CLAIMED, TEXT = "task", "claimed", "text"
"""Origins of a value: the user's words, a field that strangers can write, and any other text.

The fourth is the source of an identifier that was read: ``server:tool#path``.
"""

_KEY_BYTES = 16
_FORMAT = 1


class RunFull(Exception):
    """The counters of a run would need more than ``MAX_BYTES``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCall:
    """The facts of one call that its run counts: ``amounts`` are its integer arguments by name."""

    tool: str
    labels: frozenset[Label]
    server: str
    digest: bytes
    amounts: Mapping[str, int] = field(default_factory=dict)


class _Records:
    """Pairs of a hash and a number in one byte string: a tenth of the memory of a dict."""

    __slots__ = ("_struct", "content")

    def __init__(self, struct: Struct, content: bytes = b"") -> None:
        self._struct = struct
        self.content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Records) and self.content == other.content

    def all(self, known: bytes) -> Iterator[int]:
        """Yield the numbers of a hash."""
        for place in self._places(known[:VALUE_BYTES]):
            yield self._struct.unpack_from(self.content, place)[1]

    def get(self, known: bytes) -> int | None:
        """Return the number of a hash, or None."""
        return next(self.all(known), None)

    def add(self, known: bytes, number: int) -> None:
        """Add a pair, if it is not there."""
        if number not in self.all(known):
            self.content += self._struct.pack(known[:VALUE_BYTES], number)

    def set(self, known: bytes, number: int) -> None:
        """Replace the number of a hash that is there."""
        place = next(self._places(known[:VALUE_BYTES]))
        end = place + self._struct.size
        pair = self._struct.pack(known[:VALUE_BYTES], number)
        self.content = self.content[:place] + pair + self.content[end:]

    def drop_oldest(self, limit: int) -> None:
        """Keep the last ``limit`` pairs."""
        self.content = self.content[-limit * self._struct.size :]

    def _places(self, known: bytes) -> Iterator[int]:
        place = self.content.find(known)
        while place >= 0:
            if place % self._struct.size == 0:
                yield place
            place = self.content.find(known, place + 1)


_CALL, _PAIR = Struct(f"<{VALUE_BYTES}sB"), Struct(f"<{VALUE_BYTES}sH")
_GAP = bytes(WORD_BYTES)


@dataclass(slots=True, kw_only=True)
class RunMemory:
    """What is kept of a run, about 3 kB for 20 calls and 100 identifiers.

    Methods change nothing if they raise.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(_KEY_BYTES))
    """The key of the hashes."""
    calls: int = 0
    errors: int = 0
    repeats: int = 0
    """Calls with the tool and arguments of an earlier call."""
    tokens: int = 0
    read_only: bool = False
    undeclared: bool = False
    """Whether a called tool was not declared."""
    tools: list[str] | None = None
    """The declared tools, None without a declaration."""
    seen: list[str] = field(default_factory=list)
    """Labels and servers of its calls, such as ``label:sends`` and ``server:mail``."""
    called: dict[str, int] = field(default_factory=dict)
    succeeded: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    """``server:tool#argument`` → sum of the positive integers in calls that were sent."""
    sources: list[str] = field(default_factory=lambda: [CLAIMED])
    """The origins of values, by number."""
    made: _Records = field(default_factory=lambda: _Records(_CALL))
    """Hash of a call, and its identical failures since it last succeeded."""
    values: _Records = field(default_factory=lambda: _Records(_PAIR))
    """Hash of a value, and the number of its origin."""
    tasks: bytes = b""
    """Hashes of the words of the user's texts, which ``_GAP`` separates."""

    def declare(self, request: RunRequest) -> None:
        """Add the words of a task, and narrow ``tools`` and ``read_only``."""
        words = word_hashes(self.key, normal_text(request.task or "") or "")
        if words and not has_words(self.tasks, words):
            self.tasks += words + _GAP
        if request.tools is not None:
            known = request.tools if self.tools is None else request.tools.intersection(self.tools)
            self.tools = sorted(known)
        self.read_only = self.read_only or request.read_only

    def reserve(self, call: RunCall) -> int:
        """Count a call before it is sent, and return its number in the run, from 1."""
        self.calls += 1
        if self.made.get(call.digest) is None:
            self.made.add(call.digest, 0)
        else:
            self.repeats += 1
        self.undeclared = self.undeclared or (
            self.tools is not None and call.tool not in self.tools
        )
        for it in (f"server:{call.server}", *(f"label:{it}" for it in call.labels)):
            if it not in self.seen:
                self.seen.append(it)
        self.called[call.tool] = self.called.get(call.tool, 0) + 1
        for name, amount in call.amounts.items():
            total = f"{call.tool}#{name}"
            self.totals[total] = min(MAX_INTEGER, self.totals.get(total, 0) + max(0, amount))
        return self.calls

    def succeed(self, call: RunCall, tokens: int, found: Iterable[tuple[object, str]]) -> None:
        """Count a success, its result's tokens, and the values in it with their origins."""
        self.succeeded[call.tool] = self.succeeded.get(call.tool, 0) + 1
        self.made.set(call.digest, 0)
        self.tokens += tokens
        for value, origin in found:
            if normal := normal_text(value):
                self.values.add(value_hash(self.key, normal), self._source(origin))
        self.values.drop_oldest(MAX_VALUES)

    def fail(self, call: RunCall, *, may_be_repeated: bool) -> None:
        """Count an error; ``may_be_repeated`` ones, such as time-outs, do not stop a loop."""
        self.errors += 1
        if not may_be_repeated:
            failures = self.made.get(call.digest) or 0
            self.made.set(call.digest, min(MAX_FAILURES, failures + 1))

    def is_loop(self, digest: bytes) -> bool:
        """Return whether identical calls failed ``MAX_FAILURES`` times since the last success."""
        return (self.made.get(digest) or 0) >= MAX_FAILURES

    def origins(self, value: object) -> set[str]:
        """Return the origins of a text or number, the best ones only; empty for other values.

        Words of the task and identifiers vouch equally. A claimed value is worse, ``text`` the
        worst.
        """
        normal = normal_text(value)
        if not normal:
            return set()
        numbers = self.values.all(value_hash(self.key, normal))
        known = {self.sources[number] for number in numbers}
        if has_words(self.tasks, word_hashes(self.key, normal)):
            known.add(TASK)
        if len(known) > 1:
            known.discard(CLAIMED)
        return known or {TEXT}

    def _source(self, origin: str) -> int:
        if origin not in self.sources:
            self.sources.append(origin)
        return self.sources.index(origin)

    def encode(self) -> bytes:
        """Return the memory as bytes. Raises RunFull if it is larger than ``MAX_BYTES``."""
        tables = (self.made.content, self.values.content, self.tasks)
        header = to_json([_FORMAT, *(getattr(self, it) for it in _PLAIN), *map(len, tables)])
        content = b"".join((self.key, header, b"\n", *tables))
        if len(content) > MAX_BYTES:
            raise RunFull
        return content

    @classmethod
    def decode(cls, content: bytes) -> "RunMemory":
        """Return the memory that was encoded."""
        end = content.index(b"\n", _KEY_BYTES)
        _, *plain = from_json(content[_KEY_BYTES:end])
        *plain, made, values, _ = plain
        start = end + 1
        return cls(
            key=content[:_KEY_BYTES],
            made=_Records(_CALL, content[start : start + made]),
            values=_Records(_PAIR, content[start + made : start + made + values]),
            tasks=content[start + made + values :],
            **dict(zip(_PLAIN, plain, strict=True)),
        )


_PLAIN = (
    *("calls", "errors", "repeats", "tokens", "read_only", "undeclared", "tools", "seen"),
    *("called", "succeeded", "totals", "sources"),
)


def values_in(result: object, tool: str, labels: ToolLabels) -> Iterator[tuple[object, str]]:
    """Yield the identifiers and claimed values of a structured result, with their origins."""
    for path in labels.identifiers:
        origin = f"{tool}#{path}"
        for value in at_path(result, path):
            yield value, origin
    for path in labels.claimed:
        for value in at_path(result, path):
            yield value, CLAIMED
