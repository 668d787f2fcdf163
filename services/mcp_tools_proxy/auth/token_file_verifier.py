"""Bearer tokens of a file, which is followed: a line that goes takes its token along."""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import structlog

from mcp_tools_proxy.auth.token_format import ParsedTokens, TokenEntry, read_lines, token_hash
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.filesystem.watch import follow

PROBLEMS_SHOWN = 20
"""How many broken lines a readiness report tells."""

log = structlog.get_logger()


def _now() -> datetime:
    return datetime.now(UTC)


class TokenFileVerifier:
    """Knows the tokens of ``path``. Call ``load`` once, then keep ``run`` running.

    A broken line is reported and ignored, the others stay good. While the file is not there or
    cannot be read no token is good: nobody could revoke one.
    """

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = _now) -> None:
        self._path = path
        self._clock = clock
        self._entries: Mapping[str, TokenEntry] = {}
        self._read: ParsedTokens | None = None
        self._failure: str | None = None

    def __repr__(self) -> str:
        return f"<TokenFileVerifier {len(self._entries)} tokens, failure={self._failure!r}>"

    async def verify(self, token: str) -> Principal:
        """Give whom the token stands for. Raises Unauthenticated, naming nothing of it."""
        entry = self._find(token)
        if entry is None:
            raise Unauthenticated("the token is not known; ask for a new one", token_refused=True)
        if entry.is_expired(self._clock()):
            raise Unauthenticated("the token has expired; ask for a new one", token_refused=True)
        return entry.principal

    def is_known(self, token: str) -> bool:
        """Return whether the token is in the file and has not expired."""
        entry = self._find(token)
        return entry is not None and not entry.is_expired(self._clock())

    def may_be_good(self, token: str) -> bool:
        """Return False: what is not in the file is not good."""
        return False

    async def load(self) -> None:
        """Bring the tokens to what the file says now."""
        await self._look()

    async def run(self) -> None:
        """Follow the file until cancelled; a change is in force within a second."""
        await follow(self._path, self._look)

    def state(self) -> Mapping[str, object]:
        """Tell how the tokens are, for readiness: counts and numbers of lines, no values."""
        read = self._read or ParsedTokens()
        now = self._clock()
        problems = [
            f"line {number}: {problem}"
            for number, problem in list(read.problems.items())[:PROBLEMS_SHOWN]
        ]
        return {
            "status": "degraded" if self._failure or problems else "ok",
            "tokens": sum(not entry.is_expired(now) for entry in read.entries),
            "file": "read" if self._failure is None else f"cannot be read: {self._failure}",
            "problems": problems,
        }

    async def _look(self) -> bool:
        """Read the file; return whether that is all until it changes."""
        try:
            data = await asyncio.to_thread(self._path.read_bytes)
        except OSError as error:
            self._apply(ParsedTokens(), failure=error.strerror or type(error).__name__)
            return isinstance(error, FileNotFoundError)
        self._apply(await asyncio.to_thread(read_lines, data), failure=None)
        return True

    def _find(self, token: str) -> TokenEntry | None:
        hashed = token_hash(token)
        entry = None if hashed is None else self._entries.get(hashed)
        if entry is None or hashed is None or not hmac.compare_digest(entry.hash, hashed):
            return None
        return entry

    def _apply(self, read: ParsedTokens, *, failure: str | None) -> None:
        if read == self._read and failure == self._failure:
            return
        for number, problem in read.problems.items():
            log.warning("tokens.line_ignored", line=number, problem=problem)
        if failure is not None:
            log.error("tokens.unreadable", path=str(self._path), reason=failure)
        self._entries = {entry.hash: entry for entry in read.entries}
        self._read, self._failure = read, failure
        log.info("tokens.loaded", tokens=len(read.entries), lines_ignored=len(read.problems))
