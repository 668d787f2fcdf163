"""Statuses of uploads that are answered before they are stored, as files in the cache folder.

All workers of the service read them, also after a restart. A status names its process by a lock
file: if the lock is free, the process has ended, and its unfinished uploads are lost.
"""

import asyncio
import fcntl
import os
import re
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex, token_urlsafe
from threading import Lock
from typing import Annotated, Literal, get_args

from pydantic import Field, ValidationError
from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.errors import ShuttingDown, StoreUnavailable
from mcp_tools_proxy.http.api.answer_models import AnswerModel, Object
from mcp_tools_proxy.http.api.schemas import open_names
from mcp_tools_proxy.http.responses import error_response
from mcp_tools_proxy.storage.cache_folder import make_private
from mcp_tools_proxy.storage.files import statuses_of, write_atomically

KEPT_S = 3600.0
MAX_KEPT = 1_000
"""How long, and how many, statuses of finished uploads are kept."""

_CLEAN_EVERY_S = 60.0

_ID = re.compile(r"[A-Za-z0-9_-]{32}")
_STATUS, _LOCK = ".json", ".lock"

_LOST = (
    "the service ended before it had stored the document; read the document's version, and send "
    "the upload again"
)


State = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class UploadStatus(AnswerModel):
    """The status of an upload with `Prefer: respond-async`."""

    upload_id: str
    tenant_id: str
    doc_id: str
    state: Annotated[State, open_names("UploadState", "State of an upload.", [*get_args(State)])]
    position: Annotated[
        int | None,
        Field(description="If queued: its place among the tenant's uploads that wait, from 1."),
    ] = None
    pages_done: Annotated[int | None, Field(description="Pages that were read, of a PDF.")] = None
    pages_total: int | None = None
    accepted_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    status_code: Annotated[
        int | None,
        Field(description="If finished: the HTTP status of the same upload without `Prefer`."),
    ] = None
    answer: Annotated[
        Object | None,
        Field(
            title="UploadAnswer",
            description="If finished: the body of the same upload without `Prefer`.",
        ),
    ] = None

    @property
    def is_finished(self) -> bool:
        """Whether it does not change any more."""
        return self.finished_at is not None


class UploadStatuses:
    """The statuses of one service, in files. All methods block, but those that are awaited."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owner = token_hex(16)
        self._lock: int | None = None
        self._opening = Lock()
        self._clean_at = 0.0

    @staticmethod
    def new_id() -> str:
        """Return an id that cannot be guessed."""
        return token_urlsafe(24)

    async def keep(self, status: UploadStatus) -> None:
        """Write a status. Raises StoreUnavailable."""
        try:
            await asyncio.to_thread(self._keep, status)
        except OSError as error:
            raise StoreUnavailable(
                "the status of the upload cannot be kept; send the upload without Prefer, or tell "
                "an operator",
                reason=str(error),
            ) from error

    async def find(self, upload_id: str) -> UploadStatus | None:
        """Return a status, as it was written, or as lost; None if it is unknown."""
        return await asyncio.to_thread(self._find, upload_id)

    def close(self) -> None:
        """Release the lock: unfinished uploads of this process are lost."""
        if self._lock is not None:
            with suppress(OSError):
                self._path(self._owner, _LOCK).unlink()
            os.close(self._lock)
            self._lock = None

    def _keep(self, status: UploadStatus) -> None:
        self._open()
        record = {"owner": self._owner, "status": status}
        content = to_json(record, exclude_none=True)
        write_atomically(self._path(status.upload_id, _STATUS), content, new_file_mode=0o600)
        if time.monotonic() >= self._clean_at:
            self._clean_at = time.monotonic() + _CLEAN_EVERY_S
            with suppress(OSError):  # the status is kept
                self._clean()

    def _open(self) -> None:
        with self._opening:  # each status is written in a thread
            if self._lock is not None:
                return
            make_private(self._folder.parent)
            make_private(self._folder)
            path = self._path(self._owner, _LOCK)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise
            self._lock = descriptor

    def _find(self, upload_id: str) -> UploadStatus | None:
        if _ID.fullmatch(upload_id) is None:
            return None
        path = self._path(upload_id, _STATUS)
        owner, status = _read(path)
        if status is None or status.is_finished or self._runs(owner):
            return status
        again, now = _read(path)  # it may have been finished before its process ended
        return now if now is not None and now.is_finished and again == owner else lost(status)

    def _runs(self, owner: str) -> bool:
        """Return whether a process runs."""
        if owner == self._owner:
            return self._lock is not None
        try:
            descriptor = os.open(self._path(owner, _LOCK), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _clean(self) -> None:
        """Remove old statuses, and the locks of processes that have ended."""
        files = statuses_of(self._folder)
        found = sorted(((it.st_mtime, name) for name, it in files.items()), reverse=True)
        oldest = datetime.now(UTC).timestamp() - KEPT_S
        statuses = [it for it in found if it[1].endswith(_STATUS)]
        old = [it for it in statuses if it[0] < oldest] + statuses[MAX_KEPT:]
        for _, name in old:
            owner, status = _read(self._folder / name)
            if status is None or status.is_finished or not self._runs(owner):
                (self._folder / name).unlink(missing_ok=True)
        for modified, name in found:
            owner, suffix = os.path.splitext(name)
            if suffix == _LOCK and modified < oldest and not self._runs(owner):
                (self._folder / name).unlink(missing_ok=True)

    def _path(self, name: str, suffix: str) -> Path:
        return self._folder / f"{name}{suffix}"


def _read(path: Path) -> tuple[str, UploadStatus | None]:
    try:
        record = from_json(path.read_bytes())
        return str(record["owner"]), UploadStatus.model_validate(record["status"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return "", None


def lost(status: UploadStatus) -> UploadStatus:
    """Return the final status of an upload whose process has ended."""
    response = error_response(ShuttingDown(_LOST), status.upload_id)
    return status.model_copy(
        update={
            "state": "failed",
            "finished_at": datetime.now(UTC),
            "status_code": response.status_code,
            "answer": from_json(bytes(response.body)),
        }
    )
