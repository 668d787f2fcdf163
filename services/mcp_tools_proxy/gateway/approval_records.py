"""The store of approvals: encrypted records that expire, where unfinished sign-ins are."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import TypeVar

from pydantic import ValidationError

from mcp_tools_proxy.domain.errors import LoginsUnavailable, StateUnavailable
from mcp_tools_proxy.gateway.asked_calls import ApprovalRecord
from mcp_tools_proxy.storage.logins.sign_in_store import RecordKind, RecordSealer, SignInStore

MAX_LISTED = 200
"""Maximum number of calls of a tenant that wait, and of decisions that are listed."""


RecordT = TypeVar("RecordT", bound=ApprovalRecord)


class ApprovalRecords:
    """Reads and writes records by an approval's id or a binding.

    Methods raise StateUnavailable if the store fails.
    """

    def __init__(self, store: SignInStore, keys: Sequence[bytes]) -> None:
        self._store = store
        self._sealer = RecordSealer(keys)

    def key_of(self, *parts: str) -> str:
        """Return the keyed digest of the parts of a key."""
        return self._sealer.name_of("approval key", *parts)

    async def find(self, kind: type[RecordT], key: str) -> RecordT | None:
        """Return a record; None if it is missing or expired."""
        with _store_errors():
            found = await self._store.find(RecordKind.APPROVAL, self._name(kind, key))
        return None if found is None else self._opened(kind, found)

    async def add(self, key: str, record: RecordT, ttl_s: float, *, tenant_id: str) -> RecordT:
        """Return the existing record of this kind and key, or add this one.

        Of concurrent calls, one adds its record. Raises StateUnavailable also if the tenant has too
        many records.
        """
        kind = type(record)
        name = self._name(kind, key)
        content = b"%b\n%b" % (
            key.encode(),
            self._sealer.seal(record.model_dump_json().encode(), name),
        )
        share = _share(kind, tenant_id)
        with _store_errors():
            held = await self._store.add(RecordKind.APPROVAL, name, content, ttl_s, share=share)
        found = None if held is None else self._opened(kind, held)
        if found is None:
            raise StateUnavailable(
                "this request did nothing: too many approvals of this tenant are kept; try again "
                "later",
                reason="no space for approvals",
            )
        return found

    async def replace(self, key: str, record: ApprovalRecord) -> None:
        """Change an existing record and keep its expiry."""
        name = self._name(type(record), key)
        sealed = self._sealer.seal(record.model_dump_json().encode(), name)
        with _store_errors():
            await self._store.replace(RecordKind.APPROVAL, name, b"%b\n%b" % (key.encode(), sealed))

    async def take(self, kind: type[RecordT], key: str) -> RecordT | None:
        """Remove and return a record; of concurrent calls, only one receives it."""
        with _store_errors():
            found = await self._store.take(RecordKind.APPROVAL, self._name(kind, key))
        return None if found is None else self._opened(kind, found)

    async def of_tenant(self, kind: type[RecordT], tenant_id: str) -> list[RecordT]:
        """Return the tenant's records of this kind, at most ``MAX_LISTED``."""
        with _store_errors():
            found = await self._store.approvals(_share(kind, tenant_id), MAX_LISTED)
        opened = (self._opened(kind, it) for it in found)
        return [it for it in opened if it is not None]

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()

    def _name(self, kind: type[ApprovalRecord], key: str) -> str:
        return self._sealer.name_of("approval", kind.PART, key)

    def _opened(self, kind: type[RecordT], content: bytes) -> RecordT | None:
        """Return a record; None for one of another key, of another release, or that was changed.

        PostgreSQL lists records without their names, so each contains its key.
        """
        key, _, sealed = content.partition(b"\n")
        opened = self._sealer.open(sealed, self._name(kind, key.decode("ascii", "replace")))
        try:
            return None if opened is None else kind.model_validate_json(opened)
        except ValidationError:
            return None


def _share(kind: type[ApprovalRecord], tenant_id: str) -> str:
    """Return the share of a tenant's records of one kind."""
    return sha256(f"{kind.PART} {tenant_id}".encode("utf-8", "surrogatepass")).hexdigest()


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except LoginsUnavailable as error:
        raise StateUnavailable(
            "this request did nothing: approvals cannot be read or kept right now; try again later",
            reason=error.reason,
        ) from error
