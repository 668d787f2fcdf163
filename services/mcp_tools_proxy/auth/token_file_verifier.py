"""Verifies bearer tokens with a watched file; removing a line revokes its token."""

import asyncio
import hmac
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TypeVar

import structlog

from mcp_tools_proxy.auth.revoked_tokens import (
    KEPT,
    Revoked,
    RevokedToken,
    bounded,
    read_revoked,
)
from mcp_tools_proxy.auth.token_format import ParsedTokens, TokenEntry, read_lines, token_hash
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.storage.file_watch import follow
from mcp_tools_proxy.telemetry.recorder import Recorder

PROBLEMS_SHOWN = 20

IDS_RECORDED = 100

T = TypeVar("T")

log = structlog.get_logger()


def _revoked_at(token: RevokedToken) -> datetime:
    return token.revoked


def _now() -> datetime:
    return datetime.now(UTC)


class TokenFileVerifier:
    """Holds the tokens of ``path``. Call ``load`` once, then keep ``run`` running.

    An invalid line is logged and skipped; the others stay valid. While the file is missing or
    cannot be read, no token is valid, because none could be revoked. ``recorder`` records changes
    of the tokens.
    """

    def __init__(
        self,
        path: Path,
        *,
        recorder: Recorder | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._path = path
        self._recorder = recorder
        self._clock = clock
        self._entries: Mapping[str, TokenEntry] = {}
        self._parsed: ParsedTokens | None = None
        self._revoked: Revoked = {}
        self._failure: str | None = None
        self._reading = asyncio.Lock()
        self._changing = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<TokenFileVerifier {len(self._entries)} tokens, failure={self._failure!r}>"

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token. Raises Unauthenticated, quoting nothing of the token."""
        entry = self._find(token)
        if entry is None:
            raise self._unknown(token)
        if entry.is_expired(self._clock()):
            raise Unauthenticated(
                "the token has expired; get a new one",
                token_refused=True,
                token_fields=RevokedToken.of(entry, self._clock()).log_fields,
            )
        return entry.principal

    def _unknown(self, token: str) -> Unauthenticated:
        """Build the refusal of an unknown token; only the record has the id of a revoked one."""
        message = "the token is not known here; get a new one"
        found = self._revoked.get(token_hash(token) or "")
        if found is None or found.revoked <= self._clock() - KEPT:
            return Unauthenticated(message, token_refused=True)
        return Unauthenticated(
            message,
            token_refused=True,
            reason=f"the token was revoked, by {found.revoked:%Y-%m-%d %H:%M}Z",
            token_fields=found.log_fields,
        )

    async def load(self) -> None:
        """Read the tokens of the file."""
        await self._read()

    @property
    def entries(self) -> Collection[TokenEntry]:
        """The tokens in memory."""
        return self._entries.values()

    @property
    def expiring(self) -> int:
        """Number of tokens that expire within 7 days."""
        return sum(entry.expires_soon(self._clock()) for entry in self.entries)

    @property
    def problems(self) -> list[str]:
        """Problems of the file and its first invalid lines, without values."""
        unread = [] if self._failure is None else [f"the file cannot be read: {self._failure}"]
        return [*unread, *self._line_problems()]

    async def change(self, edit: Callable[[Path], T]) -> T:
        """Change the file with ``edit``, which blocks, and return its result.

        The change is active before this returns. Changes run one at a time, since each waits for
        the lock of the file in a thread. Raises the errors of ``edit``.
        """
        async with self._changing:
            result = await asyncio.to_thread(edit, self._path)
            await self._read()
        return result

    async def run(self) -> None:
        """Watch the file until cancelled; a change is active within a second."""
        await follow(self._path, self._read)

    def state(self) -> Mapping[str, object]:
        """Return the state of the tokens for readiness, without values."""
        now = self._clock()
        problems = self._line_problems()
        return {
            "status": "degraded" if self._failure or problems else "ok",
            "tokens": sum(not entry.is_expired(now) for entry in self.entries),
            "file": "read" if self._failure is None else f"cannot be read: {self._failure}",
            "problems": problems,
        }

    async def _read(self) -> bool:
        """Read the file; return False if it should be read again without a change.

        Reads run one at a time, so that an earlier one cannot replace the result of a later one.
        """
        async with self._reading:
            try:
                data = await asyncio.to_thread(self._path.read_bytes)
            except OSError as error:
                self._apply(ParsedTokens(), failure=error.strerror or type(error).__name__)
                return isinstance(error, FileNotFoundError)
            parsed = await asyncio.to_thread(read_lines, data)
            revoked = await asyncio.to_thread(read_revoked, self._path, self._clock())
            self._remember(parsed, revoked)
            self._apply(parsed, failure=None)
            return True

    def _remember(self, parsed: ParsedTokens, revoked: Revoked) -> None:
        """Record removed tokens: those of the revoked file, and lines removed by hand."""
        now = self._clock()
        kept = {entry.hash for entry in parsed.entries}
        removed = [RevokedToken.of(it, now) for it in self.entries if it.hash not in kept]
        known = {it.hash: it for it in removed} | {**self._revoked, **revoked}
        self._revoked = bounded(
            sorted((it for it in known.values() if it.hash not in kept), key=_revoked_at), now
        )

    def _line_problems(self) -> list[str]:
        problems = {} if self._parsed is None else self._parsed.problems
        return [
            f"line {number}: {problem}"
            for number, problem in islice(problems.items(), PROBLEMS_SHOWN)
        ]

    def _find(self, token: str) -> TokenEntry | None:
        hashed = token_hash(token)
        entry = None if hashed is None else self._entries.get(hashed)
        if entry is None or hashed is None or not hmac.compare_digest(entry.hash, hashed):
            return None
        return entry

    def _apply(self, parsed: ParsedTokens, *, failure: str | None) -> None:
        if parsed == self._parsed and failure == self._failure:
            return
        for number, problem in parsed.problems.items():
            log.warning("tokens.line_ignored", line=number, problem=problem)
        if failure is not None:
            log.error("tokens.unreadable", path=str(self._path), reason=failure)
        if self._parsed is not None:
            self._record_change(self._parsed, parsed)
        self._entries = {entry.hash: entry for entry in parsed.entries}
        self._parsed, self._failure = parsed, failure
        log.info("tokens.loaded", tokens=len(parsed.entries), lines_ignored=len(parsed.problems))

    def _record_change(self, before: ParsedTokens, after: ParsedTokens) -> None:
        old = {entry.id: entry for entry in before.entries}
        new = {entry.id: entry for entry in after.entries}
        changed = [it for it in old.keys() & new.keys() if old[it] != new[it]]
        ids = {
            "added": sorted(new.keys() - old.keys()),
            "removed": sorted(old.keys() - new.keys()),
            "changed": sorted(changed),
        }
        if self._recorder is not None and any(ids.values()):
            fields = {name: found[:IDS_RECORDED] for name, found in ids.items() if found}
            self._recorder.record("info", "tokens.changed", None, {"code": "OK", **fields})
