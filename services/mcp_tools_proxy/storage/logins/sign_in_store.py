"""Stores of short-lived records: interface, record encryption, and a store in memory.

Unfinished sign-ins, console sessions, statuses of uploads, and approvals of calls.
"""

import hmac
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from hashlib import sha256
from operator import attrgetter
from typing import NamedTuple, Protocol

from mcp_tools_proxy.domain.logins import MAX_PENDING
from mcp_tools_proxy.storage.record_cipher import RecordCipher

MAX_CONSOLE_SESSIONS = 1_000

MAX_UPLOAD_RECORDS = 20_000

MAX_APPROVAL_RECORDS = 20_000

MAX_BROWSER_RECORDS = 20_000
"""Maximum browser records: for each address, its steps, their slots, and its result."""

STEPS_PER_ADDRESS = 8
"""Concurrent browser steps per address: a sign-in needs one after the other."""


class RecordKind(StrEnum):
    """The purpose of a record; each kind has a limit."""

    PENDING = "pending"
    """An address offered to a user, one per server and identity."""
    BROWSER = "browser"
    """A step of one browser, a slot of its address, or the result of its sign-in."""
    CONSOLE = "console"
    """A console session, or its tries: each session has both."""
    UPLOAD = "upload"
    """The status of an upload with ``Prefer: respond-async``, or the wish to cancel it."""
    APPROVAL = "approval"
    """A call that waits for a person, the decision, or the use of an approval."""

    @property
    def limit(self) -> int:
        """Maximum number of records of this kind."""
        if self is RecordKind.CONSOLE:
            return 2 * MAX_CONSOLE_SESSIONS
        if self is RecordKind.UPLOAD:
            return MAX_UPLOAD_RECORDS
        if self is RecordKind.APPROVAL:
            return MAX_APPROVAL_RECORDS
        return MAX_PENDING if self is RecordKind.PENDING else MAX_BROWSER_RECORDS


UNUSABLE = (
    "sign-ins cannot be stored now, because their store is unavailable; try again later, or ask "
    "an operator to check /health/ready"
)
"""Message for users and callers if the store fails; the reason is logged."""


class SignInStore(Protocol):
    """Records that expire. Methods raise LoginsUnavailable if the store fails.

    Records with the same ``share`` belong to one tenant. A share is limited to the number of free
    records of the kind, otherwise one tenant could use all and prevent the sign-ins of others.
    Records without a share are limited by the kind only.
    """

    @property
    def is_shared(self) -> bool:
        """Whether all replicas have the same records."""
        ...

    async def add(
        self, kind: RecordKind, name: str, content: bytes, ttl_s: float, *, share: str = ""
    ) -> bytes | None:
        """Return the existing record or add ``content``; None if the limit is reached.

        Of concurrent calls, one adds its content, and the others return it.
        """
        ...

    async def replace(self, kind: RecordKind, name: str, content: bytes) -> None:
        """Change an existing record and keep its expiry."""
        ...

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        """Return a record; None if it is missing or expired."""
        ...

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        """Remove and return a record; of concurrent calls, only one receives it."""
        ...

    async def approvals(self, share: str, most: int) -> Sequence[bytes]:
        """Return the APPROVAL records of a share, at most those ``most`` that expire last.

        Records of other kinds cannot be listed: only their names give access to them.
        """
        ...

    async def aclose(self) -> None:
        """Close the store."""
        ...


class RecordSealer:
    """Names and encrypts records, so a reader of the store learns no nonce and no state."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._cipher = RecordCipher(keys)
        self._key = keys[0]

    def name_of(self, *parts: str) -> str:
        """Return the name of a record, an HMAC of ``parts``."""
        texts = [part.encode("utf-8", "surrogatepass") for part in parts]
        encoded = b"".join(b"%d:%b" % (len(text), text) for text in texts)
        return hmac.digest(self._key, b"sign-in" + encoded, sha256).hex()

    def seal(self, content: bytes, name: str) -> bytes:
        """Return a record encrypted for its name."""
        return self._cipher.encrypt(content, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes | None:
        """Return the content of a record; None if no key decrypts it."""
        return self._cipher.decrypt(sealed, name.encode())


_Key = tuple[RecordKind, str]


class _Record(NamedTuple):
    until: float
    content: bytes
    share: str


class MemorySignIns:
    """A SignInStore in memory; ``clock`` returns seconds."""

    is_shared = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: dict[_Key, _Record] = {}

    def __repr__(self) -> str:
        return f"<MemorySignIns {len(self._records)} records>"

    async def add(
        self, kind: RecordKind, name: str, content: bytes, ttl_s: float, *, share: str = ""
    ) -> bytes | None:
        """Return the existing record or add ``content``; None if the limit is reached."""
        self._drop_ended()
        known = self._records.get((kind, name))
        if known is not None:
            return known.content
        shares = [record.share for (it, _), record in self._records.items() if it is kind]
        free = kind.limit - len(shares)
        if free <= (shares.count(share) if share else 0):
            return None
        self._records[kind, name] = _Record(self._clock() + ttl_s, content, share)
        return content

    async def replace(self, kind: RecordKind, name: str, content: bytes) -> None:
        """Change an existing record and keep its expiry."""
        self._drop_ended()
        if (known := self._records.get((kind, name))) is not None:
            self._records[kind, name] = known._replace(content=content)

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        """Return a record; None if it is missing or expired."""
        self._drop_ended()
        known = self._records.get((kind, name))
        return None if known is None else known.content

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        """Remove and return a record."""
        self._drop_ended()
        known = self._records.pop((kind, name), None)
        return None if known is None else known.content

    async def approvals(self, share: str, most: int) -> Sequence[bytes]:
        """Return the approvals of a share, at most those ``most`` that expire last."""
        self._drop_ended()
        found = [
            it
            for (kind, _), it in self._records.items()
            if kind is RecordKind.APPROVAL and share and it.share == share
        ]
        found.sort(key=attrgetter("until"), reverse=True)
        return [it.content for it in found[:most]]

    async def aclose(self) -> None:
        """Delete all records."""
        self._records.clear()

    def _drop_ended(self) -> None:
        now = self._clock()
        ended = [key for key, record in self._records.items() if record.until <= now]
        for key in ended:
            del self._records[key]
