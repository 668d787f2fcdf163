"""Sessions of browsers, and their cookies.

What is kept of a session is sealed by a key that only the browser has.
"""

import asyncio
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.http.request_headers import Cookie
from mcp_tools_proxy.storage.logins.sign_in_store import RecordKind, SignInStore
from mcp_tools_proxy.storage.record_cipher import RecordCipher

SESSION_S = 8 * 3600.0
"""Longest time from a sign-in to the end of its session, in seconds."""

MAX_SESSIONS_EACH = 20
"""Sessions of one token, or one person: those of a store are shared by all, and whoever has any
right could sign in until nobody else can."""

MAX_SESSIONS_TENANT = 250
"""Sessions of the people of one tenant: a hundred of them could sign in until no operator could."""

MAX_TRIES = 20
"""Tries that a session remembers."""

MAX_TRIES_BYTES = 256 * 1024
"""Bytes that a session's tries may take: those of a store are shared by all sessions."""


Owner = tuple[tuple[str, str], ...]
"""Whose sessions are counted together: what records name of a token, or of a person."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A session that was begun at this replica: whose it is, and when it ends."""

    owner: Owner
    tenant_id: str | None
    ends_at: float
    tries: str
    """The name of the record of its tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One signed-in browser; ``token`` is the bearer token that it was made with."""

    cookie: str = field(repr=False)
    token: str = field(repr=False)
    ends_at: float
    """In seconds since 1970."""

    @property
    def csrf(self) -> str:
        """The secret that each form of this session carries."""
        return _derived(self.cookie, b"csrf").hex()

    def seal_of(self, content: bytes) -> str:
        """Return the seal of what the browser brings back: only who has the cookie can make it."""
        return hmac.digest(_derived(self.cookie, b"content"), content, sha256).hex()

    def allows(self, csrf: str) -> bool:
        """Return whether a form is one of this session, in constant time."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "surrogatepass"))


class Sessions:
    """Begins, finds and ends sessions; ``now`` returns seconds since 1970.

    The store has the digest of a cookie, and what is sealed by a key that the cookie makes: whoever
    reads the store learns no cookie and no token. Each method raises LoginsUnavailable while the
    store does not work.
    """

    def __init__(self, store: SignInStore, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._begun: dict[str, _Begun] = {}
        """By the names of their records, the oldest first."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def begin(
        self,
        token: str,
        owner: Owner,
        *,
        tenant_id: str | None = None,
        ends_at: float | None = None,
    ) -> Session:
        """Begin a session of a token; it ends at ``ends_at``, and after SESSION_S in any case.

        The oldest of the same owner, or of the same tenant, ends where there would be over
        MAX_SESSIONS_EACH, or over MAX_SESSIONS_TENANT.
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
        """Return the session of a browser; None if there is none, or its time is over."""
        found = await self._find(cookie, "session")
        if found is None or found["ends_at"] <= self._now():
            return None
        return Session(cookie=cookie, token=found["token"], ends_at=found["ends_at"])

    async def end(self, session: Session) -> None:
        """Forget a session, and what its browser has tried."""
        name = _name_of(session.cookie, "session")
        self._begun.pop(name, None)
        await self._forget(name, _name_of(session.cookie, "tries"))

    async def tries(self, session: Session) -> list[dict[str, Any]]:
        """Return what a session has tried, the newest first."""
        found: list[dict[str, Any]] = await self._find(session.cookie, "tries") or []
        return found

    async def add_try(self, session: Session, tried: dict[str, Any]) -> None:
        """Remember what a session has tried, under a ``number`` that no other try of it has.

        The oldest are forgotten, one that is too large is not kept, and of a session that has ended
        nothing is.
        """
        if len(json.dumps(tried)) > MAX_TRIES_BYTES // 2:
            return
        name = _name_of(session.cookie, "tries")
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:  # two that end at once had the same number, and one was lost
            known = await self.tries(session)
            number = 1 + max((it["number"] for it in known), default=0)
            kept = [{**tried, "number": number}, *known][:MAX_TRIES]
            while len(json.dumps(kept)) > MAX_TRIES_BYTES:
                kept.pop()
            content = _seal(session.cookie, "tries", kept)
            await self._store.replace(RecordKind.CONSOLE, name, content)

    async def _add(self, session: Session, part: str, content: object) -> str:
        """Add a record of a new session, and return its name."""
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
        """End the oldest sessions of an owner and of a tenant, so that there is room for one."""
        now = self._now()
        self._begun = {name: it for name, it in self._begun.items() if it.ends_at > now}
        own = [name for name, it in self._begun.items() if it.owner == owner]
        await self._end_oldest(own, MAX_SESSIONS_EACH)
        if tenant_id is not None:
            of_tenant = [name for name, it in self._begun.items() if it.tenant_id == tenant_id]
            await self._end_oldest(of_tenant, MAX_SESSIONS_TENANT)

    async def _end_oldest(self, names: Sequence[str], most: int) -> None:
        """End all but the newest, of which one less than ``most`` stay."""
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
"""Seconds that a browser may take at the issuer."""

MESSAGE_S = 30
"""Seconds until a message that no page has shown is forgotten."""

MAX_MESSAGE_CHARS = 300
_SEAL_CHARS = 64


class SessionCookie:
    """The cookies of a console at ``public_url``, None where that is not known.

    Over https they are ``__Host-`` cookies. Over plain HTTP, which loopback addresses have, no
    browser would keep these.
    """

    def __init__(self, public_url: str | None) -> None:
        is_secure = public_url is not None and public_url.lower().startswith("https:")
        self.name = f"__Host-{_NAME}" if is_secure else _NAME
        strict = partial(Cookie, is_secure=is_secure, same_site="Strict")
        lax = partial(Cookie, is_secure=is_secure, max_age_s=TRIP_S)  # set on the way back
        self.session = strict(name=self.name)
        self._message = strict(name=f"{self.name}-message", max_age_s=MESSAGE_S)
        self.trip = lax(name=f"{self.name}-sign-in")
        """What a browser has to bring back from the issuer."""
        self._wanted = lax(name=f"{self.name}-wanted")

    def set_message_on(self, response: Response, session: Session, text: str) -> None:
        """Set what the next page of the session shows once."""
        content = text[:MAX_MESSAGE_CHARS].encode()
        self._message.set_on(response, f"{session.seal_of(content)}{_encoded(content)}")

    def message_in(self, request: Request, session: Session) -> str | None:
        """Return what was done in this session; None for what anybody else has planted."""
        value = self._message.value_in(request) or ""
        content = _decoded(value[_SEAL_CHARS:])
        if not hmac.compare_digest(session.seal_of(content), value[:_SEAL_CHARS]):
            return None
        return content.decode()

    def drop_message_on(self, response: Response) -> None:
        """Remove it: it is shown once."""
        self._message.drop_on(response)

    def wanted_in(self, request: Request) -> str:
        """Return the address that was wanted before the trip, as the browser says; "" for none."""
        return _decoded(self._wanted.value_in(request) or "").decode(errors="replace")

    def set_trip_on(self, response: Response, value: str, wanted: str) -> None:
        """Set what the browser has to bring back from the issuer, and where it goes on then."""
        self.trip.set_on(response, value)
        if wanted:
            self._wanted.set_on(response, _encoded(wanted.encode()))

    def drop_trip_on(self, response: Response) -> None:
        """Remove that: it is good for one trip."""
        self.trip.drop_on(response)
        self._wanted.drop_on(response)


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Return the bytes of a cookie's text; none of what is no such text."""
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
