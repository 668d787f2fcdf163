"""Encrypted records of unfinished sign-ins, kept for ten minutes.

``BrowserSecret``, a secret in a cookie, binds the steps of a sign-in to one browser. The issuer
sees a digest of it as the state, which does not reveal the cookie in a link or a log.
"""

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import field, replace
from hashlib import sha256
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.logins import PENDING_S, Closing, LoginOwner
from mcp_tools_proxy.downstream.oauth.discovery import MAX_SCOPES
from mcp_tools_proxy.downstream.oauth.login_flow import PendingLogin
from mcp_tools_proxy.storage.logins.sign_in_store import (
    STEPS_PER_ADDRESS,
    UNUSABLE,
    RecordKind,
    RecordSealer,
    SignInStore,
)

T = TypeVar("T")

_NONCE_BYTES = 32
_ID_CHARS = 32

_FULL = "too many sign-ins are pending; try again in a few minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSignIn:
    """An offered sign-in link: its owner, and the scopes that a call lacked."""

    owner: LoginOwner
    nonce: str = field(repr=False)
    scopes: tuple[str, ...] = ()
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserStep:
    """A browser's visit to an issuer: that of callers' tokens (own), or the server's."""

    to: Literal["own", "server"]
    nonce: str = field(repr=False)
    login: PendingLogin


_PENDING = TypeAdapter(PendingSignIn)
_STEP = TypeAdapter(BrowserStep)
_CLOSING = TypeAdapter(Closing)


class SignInRecords:
    """Stored state of sign-ins; ``now`` returns seconds since 1970.

    Each method raises LoginsUnavailable while the store fails.
    """

    def __init__(self, store: SignInStore, sealer: RecordSealer, now: Callable[[], float]) -> None:
        self._store = store
        self._sealer = sealer
        self._now = now

    def __repr__(self) -> str:
        return f"<SignInRecords {self._store!r}>"

    @property
    def is_shared(self) -> bool:
        """Whether all replicas share the records."""
        return self._store.is_shared

    def seconds_left(self, pending: PendingSignIn) -> int:
        """Return the remaining validity of a link."""
        return max(0, int(pending.expires_at - self._now()))

    async def offer(self, owner: LoginOwner, scopes: tuple[str, ...]) -> PendingSignIn:
        """Return the pending sign-in of an owner, with the scopes that any call lacked.

        The nonce begins with the id of its record, so an owner has one record for any number of
        calls. Beyond the limit the latest scopes are kept.
        """
        id_ = self._id_of(owner)
        made = PendingSignIn(
            owner=owner,
            nonce=f"{id_}{secrets.token_urlsafe(_NONCE_BYTES)}",
            scopes=scopes,
            expires_at=self._now() + PENDING_S,
        )
        sealed = self._sealer.seal(_PENDING.dump_json(made), id_)
        found = await self._add(RecordKind.PENDING, id_, sealed, self._share_of(owner))
        known = made if found == sealed else self._opened(_PENDING, found, id_)
        if known is None:  # encrypted with a removed key
            await self._store.take(RecordKind.PENDING, id_)
            raise LoginsUnavailable(UNUSABLE, reason="a record cannot be decrypted")
        union = tuple(dict.fromkeys((*known.scopes, *scopes)))[-MAX_SCOPES:]
        if union != known.scopes:
            known = replace(known, scopes=union)
            content = self._sealer.seal(_PENDING.dump_json(known), id_)
            await self._store.replace(RecordKind.PENDING, id_, content)
        return known

    async def pending(self, nonce: str) -> PendingSignIn | None:
        """Return the pending sign-in of a nonce, if any."""
        id_ = nonce[:_ID_CHARS]
        found = await self._store.find(RecordKind.PENDING, id_)
        pending = None if found is None else self._opened(_PENDING, found, id_)
        return pending if pending is not None and _is_same(pending.nonce, nonce) else None

    async def take_pending(self, nonce: str) -> PendingSignIn | None:
        """Remove and return the pending sign-in of a nonce."""
        if await self.pending(nonce) is None:
            return None
        id_ = nonce[:_ID_CHARS]
        found = await self._store.take(RecordKind.PENDING, id_)
        pending = None if found is None else self._opened(_PENDING, found, id_)
        return pending if pending is not None and _is_same(pending.nonce, nonce) else None

    async def keep_step(self, name: str, step: BrowserStep) -> None:
        """Store a browser's step under a name that only its secret reveals.

        A link has a few steps at a time, and a further step replaces one of them. Otherwise
        repeated opening of one link could use up the limit of records and block all other sign-ins.
        """
        share = self._share_of(step.login.request.owner)
        await self._use_slot(step.nonce, name, share)
        await self._keep(name, _STEP.dump_json(step), share)

    async def take_step(self, name: str) -> BrowserStep | None:
        """Remove and return a step."""
        return await self._take(_STEP, name)

    async def keep_closing(self, name: str, closing: Closing, owner: LoginOwner) -> None:
        """Store the outcome of an owner's sign-in."""
        await self._keep(name, _CLOSING.dump_json(closing), self._share_of(owner))

    async def take_closing(self, name: str) -> Closing | None:
        """Remove and return the outcome of a sign-in."""
        return await self._take(_CLOSING, name)

    async def _use_slot(self, nonce: str, name: str, share: str) -> None:
        """Use a slot of a link for a step; if all are in use, drop the step of a random one."""
        for number in range(STEPS_PER_ADDRESS):
            if await self._add_slot(nonce, number, name, share):
                return
        number = secrets.randbelow(STEPS_PER_ADDRESS)
        slot = self._slot_of(nonce, number)
        dropped = await self._store.take(RecordKind.BROWSER, slot)
        if dropped is not None and (known := self._sealer.open(dropped, slot)) is not None:
            await self.take_step(known.decode())
        if not await self._add_slot(nonce, number, name, share):
            raise LoginsUnavailable(_FULL, reason="a sign-in link was opened too often")

    async def _add_slot(self, nonce: str, number: int, name: str, share: str) -> bool:
        slot = self._slot_of(nonce, number)
        sealed = self._sealer.seal(name.encode(), slot)
        return await self._add(RecordKind.BROWSER, slot, sealed, share) == sealed

    def _slot_of(self, nonce: str, number: int) -> str:
        return self._sealer.name_of("slot", nonce, str(number))

    async def _keep(self, name: str, content: bytes, share: str) -> None:
        digest = self._sealer.name_of("browser", name)
        await self._add(RecordKind.BROWSER, digest, self._sealer.seal(content, digest), share)

    async def _add(self, kind: RecordKind, name: str, sealed: bytes, share: str) -> bytes:
        found = await self._store.add(kind, name, sealed, PENDING_S, share=share)
        if found is None:
            raise LoginsUnavailable(_FULL, reason="the limit, of all or of this tenant, is reached")
        return found

    async def _take(self, adapter: TypeAdapter[T], name: str) -> T | None:
        digest = self._sealer.name_of("browser", name)
        found = await self._store.take(RecordKind.BROWSER, digest)
        return None if found is None else self._opened(adapter, found, digest)

    def _opened(self, adapter: TypeAdapter[T], sealed: bytes, name: str) -> T | None:
        content = self._sealer.open(sealed, name)
        if content is None:
            return None
        try:
            return adapter.validate_json(content)
        except ValidationError:  # of another release
            return None

    def _share_of(self, owner: LoginOwner) -> str:
        return self._sealer.name_of("tenant", owner.tenant_id)[:_ID_CHARS]

    def _id_of(self, owner: LoginOwner) -> str:
        return self._sealer.name_of(
            "owner",
            owner.server_id,
            owner.login_for.value,
            owner.tenant_id,
            owner.user_id,
            owner.user_issuer,
        )[:_ID_CHARS]


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))


SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class BrowserSecret:
    """The secret of one browser, for one visit to an issuer."""

    cookie: str = field(repr=False)

    @classmethod
    def new(cls) -> "BrowserSecret":
        """Return a new random secret."""
        return cls(secrets.token_urlsafe(SECRET_BYTES))

    @property
    def state(self) -> str:
        """The ``state`` of the visit."""
        return self._derived("state")

    @property
    def csrf(self) -> str:
        """The CSRF token of the form for the user's confirmation."""
        return self._derived("csrf")

    @property
    def confirmation(self) -> str:
        """The name of the step that waits for the user's confirmation."""
        return self._derived("confirmation")

    @property
    def closing(self) -> str:
        """The name of the outcome of this browser's sign-in."""
        return self._derived("closing")

    def is_of(self, state: str) -> bool:
        """Return whether a state belongs to this browser."""
        return hmac.compare_digest(self.state.encode(), state.encode("utf-8", "replace"))

    def allows(self, csrf: str) -> bool:
        """Return whether a CSRF token belongs to this browser."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "replace"))

    def _derived(self, purpose: str) -> str:
        digest = sha256(f"{purpose}:{self.cookie}".encode("utf-8", "replace")).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()
