"""The memory of a run: its flags, counters and hashes of values; no text.

Flags and counters are never dropped. Values that may vouch for arguments are dropped, oldest
first, when the memory is full: forgetting them can only lead to a refusal.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import accumulate, pairwise
from struct import Struct

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.run import MAX_TASK_CHARS, Label, RunRequest, ToolLabels
from mcp_tools_proxy.policy.runs.values import (
    GAP,
    MAX_TASK_WORDS,
    MAX_VALUE_CHARS,
    VALUE_BYTES,
    WORD_BYTES,
    at_path,
    has_words,
    is_disguised,
    is_of_task,
    normal_text,
    task_hashes,
    value_hash,
)

MAX_BYTES = 65_536
"""Maximum size of a run's memory."""

MAX_VALUES = 2_000
"""Maximum number of values that may vouch; later ones replace the oldest. They take ten bytes
each."""

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
_COUNTERS_BYTES = 512
"""Space for the key, the numbers and the signs of the JSON array."""
_COUNT_BYTES = 24
"""Space for a name's count in JSON, of up to 19 digits."""


class RunFull(Exception):
    """The run's memory has no space for a call, a declaration or a task.

    The message is for the caller.
    """


def _full(what: str) -> RunFull:
    return RunFull(f"this request did nothing: {what}; continue in another run, with a new id")


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

    __hash__ = None  # type: ignore[assignment] # it can change

    def copy(self) -> "_Records":
        """Return an independent copy."""
        return _Records(self._struct, self.content)

    def all(self, known: bytes) -> Iterator[int]:
        """Yield the numbers of a hash."""
        for place in self._places(known):
            yield self._struct.unpack_from(self.content, place)[1]

    def get(self, known: bytes) -> int | None:
        """Return the number of a hash, or None."""
        return next(self.all(known), None)

    def add_all(self, pairs: Iterable[tuple[bytes, int]]) -> None:
        """Add the pairs that are not there, each once."""
        content, new = self.content, dict.fromkeys(pairs)
        self.content += b"".join(
            self._struct.pack(*pair)
            for pair in new
            if content.find(pair[0]) < 0 or pair[1] not in self.all(pair[0])
        )

    def set(self, known: bytes, number: int) -> None:
        """Replace the number of a hash, or add it."""
        place = next(self._places(known), len(self.content))
        end = place + self._struct.size
        self.content = self.content[:place] + self._struct.pack(known, number) + self.content[end:]

    def keep_last(self, limit: int) -> None:
        """Keep the last ``limit`` pairs."""
        self.content = self.content[-limit * self._struct.size :] if limit > 0 else b""

    def _places(self, known: bytes) -> Iterator[int]:
        place = self.content.find(known)
        while place >= 0:
            if place % self._struct.size == 0:
                yield place
            place = self.content.find(known, place + 1)


_CALL, _PAIR = Struct(f"<{VALUE_BYTES}sB"), Struct(f"<{VALUE_BYTES}sH")


@dataclass(slots=True, kw_only=True)
class RunMemory:
    """The facts of a run, about 3 kB for 20 calls and 100 identifiers.

    Methods change nothing if they raise, except that ``declare`` narrows.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(_KEY_BYTES))
    """The key of the hashes."""
    calls: int = 0
    errors: int = 0
    repeats: int = 0
    """Calls with the tool and arguments of an earlier call."""
    tokens: int = 0
    read_only: bool = False
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
    name_bytes: int = 0
    """Space for all names and their counts in JSON."""
    made: _Records = field(default_factory=lambda: _Records(_CALL))
    """Hash of a call, and its identical failures since it last succeeded."""
    values: _Records = field(default_factory=lambda: _Records(_PAIR))
    """Hash of a value, and the number of its origin."""
    tasks: bytes = b""
    """Hashes of the words of the user's texts, which ``GAP`` separates."""
    last_task: bytes = b""
    """Hash of the last text: most requests repeat it, and hashing 4,000 words takes 3 ms."""

    def copy(self) -> "RunMemory":
        """Return an independent copy."""
        return replace(
            self,
            tools=None if self.tools is None else self.tools.copy(),
            seen=self.seen.copy(),
            called=self.called.copy(),
            succeeded=self.succeeded.copy(),
            totals=self.totals.copy(),
            sources=self.sources.copy(),
            made=self.made.copy(),
            values=self.values.copy(),
        )

    @property
    def undeclared(self) -> bool:
        """Whether the run declares no tools."""
        return self.tools is None

    @property
    def size(self) -> int:
        """Maximum number of bytes of ``encode``."""
        return self._fixed_size + len(self.values.content)

    @property
    def _fixed_size(self) -> int:
        """Space for everything that is never dropped."""
        return _COUNTERS_BYTES + self.name_bytes + len(self.made.content) + len(self.tasks)

    def declare(self, request: RunRequest) -> None:
        """Add the words of a task, and narrow ``tools`` and ``read_only``.

        Raises RunFull if not all of it can be kept. The run is narrowed all the same, to no tools
        if their names are too long: the next request may omit them.
        """
        self.read_only = self.read_only or request.read_only
        if request.tools is not None:
            self._narrow(request.tools)
        if request.task and (last_task := value_hash(self.key, request.task)) != self.last_task:
            tasks = self._with_task(request.task)
            self._check_space(
                len(tasks) - len(self.tasks), "the task of its run is too long to be kept"
            )
            self.tasks, self.last_task = tasks, last_task

    def _narrow(self, declared: frozenset[str]) -> None:
        if self.tools is not None:
            self.tools = [it for it in self.tools if it in declared]
            return
        tools = sorted(filter(_is_utf8, declared))
        names = sum(map(_json_size, tools))
        self.tools = []
        self._check_space(names, "the tools of its run are too many to be kept")
        self.tools = tools
        self.name_bytes += names

    def _with_task(self, task: str) -> bytes:
        if len(task) > MAX_TASK_CHARS:
            raise _full(f"the task of its run has more than {MAX_TASK_CHARS:,} characters")
        words = task_hashes(self.key, task)
        if not words or has_words(self.tasks, words):
            return self.tasks
        tasks = GAP.join((self.tasks, words)) if self.tasks else words
        if len(tasks) > MAX_TASK_WORDS * WORD_BYTES:
            raise _full(f"the tasks of its run have more than {MAX_TASK_WORDS:,} words")
        return tasks

    def reserve(self, call: RunCall) -> int:
        """Count a call before it is sent, and return its number in the run, from 1.

        Raises RunFull.
        """
        known = self.made.get(call.digest[:VALUE_BYTES])
        seen = (f"server:{call.server}", *(f"label:{it}" for it in sorted(call.labels)))
        new = [it for it in seen if it not in self.seen]
        totals = _totals_of(call)
        names = sum(map(_json_size, new))
        names += sum(_json_size(it) + _COUNT_BYTES for it in totals if it not in self.totals)
        if call.tool not in self.called:
            names += 2 * (_json_size(call.tool) + _COUNT_BYTES)  # also for ``succeeded``
        self._check_space(
            names + (_CALL.size if known is None else 0), "its run made too many different calls"
        )
        self.calls += 1
        self.repeats += known is not None
        self.made.set(call.digest[:VALUE_BYTES], known or 0)
        self.seen += new
        self.called[call.tool] = self.called.get(call.tool, 0) + 1
        for total, amount in totals.items():
            self.totals[total] = min(MAX_INTEGER, self.totals.get(total, 0) + amount)
        self.name_bytes += names
        return self.calls

    def see(self, label: Label) -> None:
        """Add a label that showed only after its call was reserved. Raises RunFull."""
        name = f"label:{label}"
        if name not in self.seen:
            size = _json_size(name)
            self._check_space(size, "the memory of its run is full")
            self.seen.append(name)
            self.name_bytes += size

    def _check_space(self, more: int, problem: str) -> None:
        """Check the space for things that are never dropped. Raises RunFull."""
        if more > 0 and self._fixed_size + more > MAX_BYTES:
            raise _full(problem)
        self._drop_values(more)

    def _drop_values(self, more: int = 0) -> None:
        """Drop the oldest values that exceed the limit or the space."""
        space = (MAX_BYTES - self._fixed_size - more) // _PAIR.size
        self.values.keep_last(min(MAX_VALUES, space))

    def succeed(self, call: RunCall, tokens: int, found: Iterable[tuple[object, str]]) -> None:
        """Count a success of a reserved call, its result's tokens, and the values in it.

        ``found`` are values with their origins, as from ``values_in``.
        """
        self.succeeded[call.tool] = self.succeeded.get(call.tool, 0) + 1
        self.made.set(call.digest[:VALUE_BYTES], 0)
        self.tokens = min(MAX_INTEGER, self.tokens + tokens)
        self.values.add_all(self._hashes_of(found))
        self._drop_values()

    def _hashes_of(self, found: Iterable[tuple[object, str]]) -> Iterator[tuple[bytes, int]]:
        for value, origin in found:
            if isinstance(value, str) and len(value) > MAX_VALUE_CHARS:
                continue
            if (normal := normal_text(value)) and (source := self._source(origin)) is not None:
                yield value_hash(self.key, normal), source

    def _source(self, origin: str) -> int | None:
        """Return the number of an origin; None without space for it."""
        if origin in self.sources:
            return self.sources.index(origin)
        size = _json_size(origin)
        if self._fixed_size + size > MAX_BYTES:
            return None
        self.sources.append(origin)
        self.name_bytes += size
        return len(self.sources) - 1

    def fail(self, call: RunCall, *, may_be_repeated: bool) -> None:
        """Count an error of a reserved call.

        Those that ``may_be_repeated``, such as time-outs, do not stop a loop.
        """
        self.errors += 1
        if not may_be_repeated:
            failures = self.made.get(call.digest[:VALUE_BYTES]) or 0
            self.made.set(call.digest[:VALUE_BYTES], min(MAX_FAILURES, failures + 1))

    def withdraw(self, call: RunCall) -> None:
        """Take back from the counts of its tool a reserved call that was not sent.

        A total at its maximum stays there: what was beyond it is not known.
        """
        self.called[call.tool] -= 1
        for name, amount in _totals_of(call).items():
            if self.totals[name] < MAX_INTEGER:
                self.totals[name] -= amount

    def refuse(self, digest: bytes, *, may_be_repeated: bool) -> None:
        """Count a call that was refused before it was sent.

        Those that ``may_be_repeated``, such as refusals by a policy, do not stop a loop.
        """
        known = self.made.get(digest[:VALUE_BYTES])
        self.calls += 1
        self.errors += 1
        self.repeats += known is not None
        if known is None and self._fixed_size + _CALL.size > MAX_BYTES:
            return
        self._drop_values(_CALL.size)
        failures = (known or 0) + (not may_be_repeated)
        self.made.set(digest[:VALUE_BYTES], min(MAX_FAILURES, failures))

    def was_made(self, digest: bytes) -> bool:
        """Return whether an identical call was made or refused before."""
        return self.made.get(digest[:VALUE_BYTES]) is not None

    def is_loop(self, digest: bytes) -> bool:
        """Return whether identical calls failed ``MAX_FAILURES`` times since the last success."""
        return (self.made.get(digest[:VALUE_BYTES]) or 0) >= MAX_FAILURES

    def origins(self, value: object) -> set[str]:
        """Return the origins of a text or number, the best ones only; empty for other values.

        Words of the task and identifiers vouch equally. A claimed value is worse, ``text`` the
        worst.
        """
        if isinstance(value, str) and len(value) > MAX_TASK_CHARS:
            return {TEXT}
        normal = normal_text(value)
        if not normal:
            return set()
        if isinstance(value, str) and is_disguised(value, normal):
            return {TEXT}
        known = {self.sources[it] for it in self.values.all(value_hash(self.key, normal))}
        if is_of_task(self.key, self.tasks, normal):
            known.add(TASK)
        if len(known) > 1:
            known.discard(CLAIMED)
        return known or {TEXT}

    def encode(self) -> bytes:
        """Return the memory as at most ``MAX_BYTES``."""
        tables = (self.made.content, self.values.content, self.tasks, self.last_task)
        header = to_json([_FORMAT, *(getattr(self, it) for it in _PLAIN), *map(len, tables)])
        return b"".join((self.key, header, b"\n", *tables))

    @classmethod
    def decode(cls, content: bytes) -> "RunMemory":
        """Return the memory that was encoded. Raises ValueError for that of another release."""
        end = content.index(b"\n", _KEY_BYTES)
        version, *plain = from_json(content[_KEY_BYTES:end])
        if version != _FORMAT:
            raise ValueError(f"the memory of a run has format {version}")
        plain, sizes = plain[:-_TABLES], plain[-_TABLES:]
        ends = [*accumulate(sizes, initial=end + 1)]
        made, values, tasks, last_task = (content[start:end] for start, end in pairwise(ends))
        return cls(
            key=content[:_KEY_BYTES],
            made=_Records(_CALL, made),
            values=_Records(_PAIR, values),
            tasks=tasks,
            last_task=last_task,
            **dict(zip(_PLAIN, plain, strict=True)),
        )


_TABLES = 4
_PLAIN = (
    *("calls", "errors", "repeats", "tokens", "read_only", "tools", "seen"),
    *("called", "succeeded", "totals", "sources", "name_bytes"),
)


def _totals_of(call: RunCall) -> dict[str, int]:
    """Return what a call adds to totals; negative amounts would lower them."""
    return {
        f"{call.tool}#{name}": min(MAX_INTEGER, max(0, amount))
        for name, amount in call.amounts.items()
    }


def _is_utf8(name: str) -> bool:
    """Return whether a name can be the name of a tool: JSON cannot contain half a surrogate."""
    return name.isascii() or not any("\ud800" <= it <= "\udfff" for it in name)


def _json_size(name: str) -> int:
    return len(to_json(name)) + 1  # a comma or a colon


def values_in(result: object, tool: str, labels: ToolLabels) -> Iterator[tuple[object, str]]:
    """Yield the identifiers and claimed values of a structured result, with their origins."""
    for path in labels.identifiers:
        origin = f"{tool}#{path}"
        for value in at_path(result, path):
            yield value, origin
    for path in labels.claimed:
        for value in at_path(result, path):
            yield value, CLAIMED


def last_values(found: Iterable[tuple[object, str]]) -> list[tuple[object, str]]:
    """Return the different values among those of a result, the last ``MAX_VALUES`` of them."""
    return list(dict.fromkeys(found))[-MAX_VALUES:]
