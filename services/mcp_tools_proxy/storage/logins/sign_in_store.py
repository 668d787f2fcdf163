"""What a store of unfinished sign-ins promises, and how their records are named and sealed."""

import hmac
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, Protocol

from mcp_tools_proxy.domain.logins import MAX_PENDING
from mcp_tools_proxy.storage.record_cipher import RecordCipher

MAX_CONSOLE_SESSIONS = 1_000

MAX_BROWSER_RECORDS = 20_000
"""Most records of browsers: for each address some steps, their slots, and how it ended."""

STEPS_PER_ADDRESS = 8
"""Steps of browsers that one address has at a time: a sign-in needs one after the other."""


class RecordKind(StrEnum):
    """What a record is for; each kind has a number of records that there may be."""

    PENDING = "pending"
    """An address that was offered, one for each server and identity."""
    BROWSER = "browser"
    """A step of one browser, the slot of its address that it uses, or how its sign-in ended."""
    CONSOLE = "console"
    """A session of the console, or what its browser has tried there: each session has both."""

    @property
    def limit(self) -> int:
        """How many there may be."""
        if self is RecordKind.CONSOLE:
            return 2 * MAX_CONSOLE_SESSIONS
        return MAX_PENDING if self is RecordKind.PENDING else MAX_BROWSER_RECORDS


UNUSABLE = (
    "sign-ins cannot be stored now, because their store is unavailable; try again later, or ask "
    "an operator to check /health/ready"
)
"""What users and callers read where the store fails; the reason is for records."""


class SignInStore(Protocol):
    """Records of unfinished sign-ins. Each method raises LoginsUnavailable if it does not work.

    A ``share`` is a name that the records of one tenant have in common. A share has at most as many
    records of a kind as are free: one tenant alone could use all places, and nobody else could sign
    in. Records without a share are bounded by the kind alone.
    """

    @property
    def is_shared(self) -> bool:
        """Whether all replicas have the same records."""
        ...

    async def add(
        self, kind: RecordKind, name: str, content: bytes, ttl_s: float, *, share: str = ""
    ) -> bytes | None:
        """Return the record of a name, ``content`` where there was none; None where all are used.

        Of several at the same time one adds its content, and the others are given that.
        """
        ...

    async def replace(self, kind: RecordKind, name: str, content: bytes) -> None:
        """Change a record that is there; its time stays."""
        ...

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        """Return a record, None if there is none, or its time is over."""
        ...

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        """Remove a record and return it; of several at the same time one gets it."""
        ...


class RecordSealer:
    """Names and seals records, so that whoever reads the store learns no nonce and no state."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._cipher = RecordCipher(keys)
        self._key = keys[0]

    def name_of(self, *parts: str) -> str:
        """Return the name of a record: a digest by our key."""
        texts = [part.encode("utf-8", "surrogatepass") for part in parts]
        encoded = b"".join(b"%d:%b" % (len(text), text) for text in texts)
        return hmac.digest(self._key, b"sign-in" + encoded, sha256).hex()

    def seal(self, content: bytes, name: str) -> bytes:
        """Return a record sealed for its name."""
        return self._cipher.encrypt(content, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes | None:
        """Return the content of a record; None if no key of ours has sealed it."""
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
        """Return the record of a name, ``content`` where there was none; None if it is full."""
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
        """Change a record that is there; its time stays."""
        self._drop_ended()
        if (known := self._records.get((kind, name))) is not None:
            self._records[kind, name] = known._replace(content=content)

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        """Return a record, None if there is none, or its time is over."""
        self._drop_ended()
        known = self._records.get((kind, name))
        return None if known is None else known.content

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        """Remove a record and return it."""
        self._drop_ended()
        known = self._records.pop((kind, name), None)
        return None if known is None else known.content

    async def aclose(self) -> None:
        """Forget everything."""
        self._records.clear()

    def _drop_ended(self) -> None:
        now = self._clock()
        ended = [key for key, record in self._records.items() if record.until <= now]
        for key in ended:
            del self._records[key]
