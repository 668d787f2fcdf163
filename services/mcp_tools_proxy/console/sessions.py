"""Browser sessions and their cookies.

Stored session data is encrypted with a key derived from the browser's cookie.
"""

import asyncio
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.request_headers import Cookie
from mcp_tools_proxy.storage.logins.sign_in_store import RecordKind, SignInStore
from mcp_tools_proxy.storage.record_cipher import RecordCipher

SESSION_S = 8 * 3600.0
"""Maximum lifetime of a session in seconds."""

MAX_SESSIONS_EACH = 20
"""Sessions per token or user. All sessions share one store; without the limit, any user could fill
it and lock out the others.
"""

MAX_SESSIONS_TENANT = 250
"""Sessions per tenant: a hundred users could otherwise lock out the operators."""

MAX_TRIES = 20
"""Tries kept per session."""

MAX_TRIES_BYTES = 256 * 1024
"""Maximum size of a session's tries: all sessions share one store."""


Owner = tuple[tuple[str, str], ...]
"""The log fields of a token or user; sessions with the same owner are counted together."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A session that started at this replica."""

    owner: Owner
    tenant_id: str | None
    ends_at: float
    tries: str
    """Name of the record with its tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One signed-in browser; ``token`` is the bearer token used to sign in."""

    cookie: str = field(repr=False)
    token: str = field(repr=False)
    ends_at: float
    """Seconds since 1970."""

    @property
    def csrf(self) -> str:
        """The CSRF secret in each form of this session."""
        return _derived(self.cookie, b"csrf").hex()

    def seal_of(self, content: bytes) -> str:
        """Return a MAC of content that the browser sends back; computing it requires the cookie."""
        return hmac.digest(_derived(self.cookie, b"content"), content, sha256).hex()

    def allows(self, csrf: str) -> bool:
        """Return whether a form belongs to this session, in constant time."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "surrogatepass"))


class Sessions:
    """Starts, finds and ends sessions; ``now`` returns seconds since 1970.

    Records are named by digests of the cookie and encrypted with keys derived from it, so a reader
    of the store learns neither cookies nor tokens. Methods raise LoginsUnavailable while the store
    is unavailable.
    """

    def __init__(self, store: SignInStore, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._begun: dict[str, _Begun] = {}
        """Keys are record names, oldest first."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def begin(
        self,
        token: str,
        owner: Owner,
        *,
        tenant_id: str | None = None,
        ends_at: float | None = None,
    ) -> Session:
        """Start a session for a token; it ends at ``ends_at``, at the latest after SESSION_S.

        Ends the oldest sessions of the owner or tenant if the limits MAX_SESSIONS_EACH or
        MAX_SESSIONS_TENANT would be exceeded.
        """
        now = self._now()
        await self._free_places(owner, tenant_id)
        until = now + SESSION_S if ends_at is None else min(ends_at, now + SESSION_S)
        session = Session(cookie=secrets.token_urlsafe(32), token=token, ends_at=until)
        tries = await self._add(session, "tries", [])
        name = await self._add(session, "session", {"token": token, "ends_at": until})
        self._begun[name] = _Begun(owner, tenant_id, until, tries)
        return session

    async def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None if it is unknown or expired."""
        found = await self._find(cookie, "session")
        if found is None or found["ends_at"] <= self._now():
            return None
        return Session(cookie=cookie, token=found["token"], ends_at=found["ends_at"])

    async def end(self, session: Session) -> None:
        """Delete a session and its tries."""
        name = _name_of(session.cookie, "session")
        self._begun.pop(name, None)
        await self._forget(name, _name_of(session.cookie, "tries"))

    async def tries(self, session: Session) -> list[dict[str, Any]]:
        """Return the tries of a session, newest first."""
        found: list[dict[str, Any]] = await self._find(session.cookie, "tries") or []
        return found

    async def add_try(self, session: Session, tried: dict[str, Any]) -> None:
        """Save a try under a ``number`` that is unique in its session.

        Drops the oldest tries above the limits. A try that is too large, or whose session has
        ended, is not saved.
        """
        if len(json.dumps(tried)) > MAX_TRIES_BYTES // 2:
            return
        name = _name_of(session.cookie, "tries")
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:  # two concurrent writes used the same number, and one was lost
            known = await self.tries(session)
            number = 1 + max((it["number"] for it in known), default=0)
            kept = [{**tried, "number": number}, *known][:MAX_TRIES]
            while len(json.dumps(kept)) > MAX_TRIES_BYTES:
                kept.pop()
            content = _seal(session.cookie, "tries", kept)
            await self._store.replace(RecordKind.CONSOLE, name, content)

    async def _add(self, session: Session, part: str, content: object) -> str:
        name = _name_of(session.cookie, part)
        sealed = _seal(session.cookie, part, content)
        ttl_s = max(1.0, session.ends_at - self._now())
        if await self._store.add(RecordKind.CONSOLE, name, sealed, ttl_s) is None:
            await self._forget(_name_of(session.cookie, "tries"))
            raise LoginsUnavailable(
                "too many sessions are open in the console; try again later",
                reason="the limit of sessions is reached",
            )
        return name

    async def _free_places(self, owner: Owner, tenant_id: str | None) -> None:
        """End the oldest sessions of an owner and a tenant to keep their limits with one more."""
        now = self._now()
        self._begun = {name: it for name, it in self._begun.items() if it.ends_at > now}
        own = [name for name, it in self._begun.items() if it.owner == owner]
        await self._end_oldest(own, MAX_SESSIONS_EACH)
        if tenant_id is not None:
            of_tenant = [name for name, it in self._begun.items() if it.tenant_id == tenant_id]
            await self._end_oldest(of_tenant, MAX_SESSIONS_TENANT)

    async def _end_oldest(self, names: Sequence[str], most: int) -> None:
        """End the oldest sessions until ``most`` - 1 remain."""
        for name in names[: max(0, len(names) - most + 1)]:
            if (begun := self._begun.pop(name, None)) is not None:
                await self._forget(name, begun.tries)

    async def _forget(self, *names: str) -> None:
        for name in names:
            await self._store.take(RecordKind.CONSOLE, name)

    async def _find(self, cookie: str, part: str) -> Any:
        name = _name_of(cookie, part)
        sealed = await self._store.find(RecordKind.CONSOLE, name)
        content = None if sealed is None else _cipher_of(cookie).decrypt(sealed, part.encode())
        return None if content is None else json.loads(content)


def _seal(cookie: str, part: str, content: object) -> bytes:
    return _cipher_of(cookie).encrypt(json.dumps(content).encode(), part.encode())


def _cipher_of(cookie: str) -> RecordCipher:
    return RecordCipher([_derived(cookie, b"seal")])


def _name_of(cookie: str, part: str) -> str:
    return _derived(cookie, f"name of {part}".encode()).hex()


def _derived(cookie: str, purpose: bytes) -> bytes:
    return hmac.digest(cookie.encode(), b"console " + purpose, sha256)


_NAME = "mcp-console"

TRIP_S = 600
"""Seconds allowed for the sign-in at the issuer."""

MESSAGE_S = 30
"""Seconds until a message that was not shown expires."""

MAX_MESSAGE_CHARS = 300
_SEAL_CHARS = 64


class SessionCookie:
    """The cookies of a console at ``public_url`` (None if unknown).

    Over https they have the prefix ``__Host-``, which browsers refuse over plain HTTP, as on
    loopback addresses.
    """

    def __init__(self, public_url: str | None) -> None:
        is_secure = public_url is not None and public_url.lower().startswith("https:")
        self.name = f"__Host-{_NAME}" if is_secure else _NAME
        strict = partial(Cookie, is_secure=is_secure, same_site="Strict")
        lax = partial(Cookie, is_secure=is_secure, max_age_s=TRIP_S)  # set on the way back
        self.session = strict(name=self.name)
        self._message = strict(name=f"{self.name}-message", max_age_s=MESSAGE_S)
        self.trip = lax(name=f"{self.name}-sign-in")
        """The value that the browser must return from the issuer."""
        self._wanted = lax(name=f"{self.name}-wanted")

    def set_message_on(self, response: Response, session: Session, text: str) -> None:
        """Set the message that the next page of the session shows once."""
        content = text[:MAX_MESSAGE_CHARS].encode()
        self._message.set_on(response, f"{session.seal_of(content)}{_encoded(content)}")

    def message_in(self, request: Request, session: Session) -> str | None:
        """Return the message of this session; None if it was forged."""
        value = self._message.value_in(request) or ""
        content = _decoded(value[_SEAL_CHARS:])
        if not hmac.compare_digest(session.seal_of(content), value[:_SEAL_CHARS]):
            return None
        return content.decode()

    def drop_message_on(self, response: Response) -> None:
        """Remove the message cookie."""
        self._message.drop_on(response)

    def wanted_in(self, request: Request) -> str:
        """Return the page requested before the sign-in as the browser states it, or ""."""
        return _decoded(self._wanted.value_in(request) or "").decode(errors="replace")

    def set_trip_on(self, response: Response, value: str, wanted: str) -> None:
        """Set the cookies for the sign-in at the issuer: its state and the page requested."""
        self.trip.set_on(response, value)
        if wanted:
            self._wanted.set_on(response, _encoded(wanted.encode()))

    def drop_trip_on(self, response: Response) -> None:
        """Remove the cookies of a sign-in: they are valid for one."""
        self.trip.drop_on(response)
        self._wanted.drop_on(response)


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Decode the text of a cookie; return b"" if it is invalid."""
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
