"""Statuses of uploads in the store that replicas share, for requests to another replica."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import structlog
from pydantic import BaseModel, ValidationError

from mcp_tools_proxy.domain.errors import LoginsUnavailable, StoreUnavailable
from mcp_tools_proxy.http.api.upload_statuses import KEPT_S, UploadStatus, lost
from mcp_tools_proxy.storage.logins.sign_in_store import RecordKind, RecordSealer, SignInStore

LOST_S = 60.0
"""Age of an unfinished upload's status at which its replica has ended: it is written every 5 s, and
the clocks of replicas differ by less."""

_UNFINISHED_S = 86_400.0

log = structlog.get_logger()


class _Shared(BaseModel):
    seen_at: datetime
    status: UploadStatus


class SharedUploadStatuses:
    """Statuses in a shared store, encrypted by the ids of the uploads, which cannot be guessed."""

    def __init__(self, store: SignInStore) -> None:
        self._store = store

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()

    async def add(self, status: UploadStatus) -> None:
        """Add the status of an upload; a failure is logged."""
        await self._add("unfinished", status, _UNFINISHED_S)

    async def renew(self, status: UploadStatus) -> bool:
        """Write the status of an unfinished upload; return whether it was cancelled elsewhere."""
        name, content = _sealed("unfinished", status)
        try:
            await self._store.replace(RecordKind.UPLOAD, name, content)
            wish, _ = _named("cancelled", status.upload_id)
            return await self._store.find(RecordKind.UPLOAD, wish) is not None
        except LoginsUnavailable as error:
            _log_failure(error.reason)
            return False

    async def finish(self, status: UploadStatus) -> None:
        """Replace the status of an unfinished upload by the final one; a failure is logged."""
        await self._add("finished", status, KEPT_S)
        for part in ("unfinished", "cancelled"):
            try:
                await self._store.take(RecordKind.UPLOAD, _named(part, status.upload_id)[0])
            except LoginsUnavailable as error:
                _log_failure(error.reason)

    async def cancel(self, upload_id: str) -> None:
        """Have the replica of an upload end it within seconds. Raises StoreUnavailable."""
        name, _ = _named("cancelled", upload_id)
        try:
            await self._store.add(RecordKind.UPLOAD, name, b"-", _UNFINISHED_S)
        except LoginsUnavailable as error:
            raise _unavailable(error) from error

    async def find(self, upload_id: str) -> UploadStatus | None:
        """Return the status of an upload, or None. Raises StoreUnavailable."""
        for part in ("finished", "unfinished", "finished"):  # it may finish in between
            name, sealer = _named(part, upload_id)
            try:
                sealed = await self._store.find(RecordKind.UPLOAD, name)
            except LoginsUnavailable as error:
                raise _unavailable(error) from error
            content = None if sealed is None else sealer.open(sealed, name)
            if content is not None:
                return _loaded(content)
        return None

    async def _add(self, part: str, status: UploadStatus, ttl_s: float) -> None:
        name, content = _sealed(part, status)
        share = sha256(status.tenant_id.encode()).hexdigest()
        try:
            added = await self._store.add(RecordKind.UPLOAD, name, content, ttl_s, share=share)
        except LoginsUnavailable as error:
            _log_failure(error.reason)
        else:
            if added is None:
                _log_failure("too many statuses are in the shared store")


def _named(part: str, upload_id: str) -> tuple[str, RecordSealer]:
    """Return the name of a record of an upload, and its cipher."""
    sealer = RecordSealer([upload_id.encode()])
    return sealer.name_of("upload", part), sealer


def _sealed(part: str, status: UploadStatus) -> tuple[str, bytes]:
    name, sealer = _named(part, status.upload_id)
    content = _Shared(seen_at=datetime.now(UTC), status=status).model_dump_json(exclude_none=True)
    return name, sealer.seal(content.encode(), name)


def _loaded(content: bytes) -> UploadStatus | None:
    try:
        found = _Shared.model_validate_json(content)
    except ValidationError:  # of another release
        return None
    is_old = datetime.now(UTC) - found.seen_at > timedelta(seconds=LOST_S)
    return lost(found.status) if is_old and not found.status.is_finished else found.status


def _unavailable(error: LoginsUnavailable) -> StoreUnavailable:
    return StoreUnavailable(
        "the status of the upload cannot be read now; try again later", reason=error.reason
    )


def _log_failure(reason: str | None) -> None:
    log.warning("document.upload_status_not_kept", reason=reason)
