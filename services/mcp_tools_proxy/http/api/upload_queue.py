"""Queue of uploads that were answered with 202; one of each tenant runs at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from io import FileIO
from typing import TYPE_CHECKING

import structlog
from prometheus_client import Gauge
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.domain.errors import ImportBusy, InternalError, ProxyError, StoreUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.upload_statuses import MAX_KEPT, State, UploadStatus, UploadStatuses
from mcp_tools_proxy.http.request_refusals import RequestRefusals, continued_scope
from mcp_tools_proxy.http.responses import error_response

if TYPE_CHECKING:
    from mcp_tools_proxy.http.api.shared_upload_statuses import SharedUploadStatuses

MAX_QUEUED = 256
MAX_QUEUED_BYTES = 1024 * 1024 * 1024
"""Uploads that wait or run, and their bytes on disk, for each process."""

TENANT_SHARE = 0.75
"""Share of both that one tenant can use."""

BUSY_RETRY_S = 30

STATUS, CANCEL = "upload.status", "upload.cancel"
"""Questions to the other workers."""

RENEW_S = 5.0
"""Seconds between two writes of unfinished uploads to the shared store."""

log = structlog.get_logger()

Work = Callable[["RunningUpload"], Awaitable[Response]]
"""Imports and stores an upload; returns the response that it would have had."""


@dataclass(slots=True, kw_only=True)
class RunningUpload:
    """An upload of this process that is not finished."""

    status: UploadStatus
    parsed: ParsedRequest[None]
    file: FileIO
    size: int
    work: Work
    task: asyncio.Task[None] | None = None
    is_being_stored: bool = False
    """Whether it can no longer be cancelled: its document or its final status is being stored."""
    is_cancelled: bool = False

    def show_pages(self, done: int, total: int) -> None:
        """Set the progress."""
        self.status.pages_done, self.status.pages_total = done, total


class UploadQueue:
    """Uploads of this process that wait or run; those of a tenant run one after the other.

    Any worker knows the status of each upload, as the workers ask each other, and any replica if
    they share a store. Imports share their places fairly (``FairPlaces``).
    """

    def __init__(
        self,
        statuses: UploadStatuses,
        lifecycle: Lifecycle,
        refusals: RequestRefusals,
        workers: WorkerGroup,
        *,
        shared: "SharedUploadStatuses | None",
        max_document_bytes: int,
        queued: Gauge,
    ) -> None:
        """Initialize; ``shared`` statuses are known to all replicas."""
        self._statuses = statuses
        self._shared = shared
        self._lifecycle = lifecycle
        self._refusals = refusals
        self._workers = workers
        self._max_bytes = max(MAX_QUEUED_BYTES, 2 * max_document_bytes)
        self._uploads: dict[str, RunningUpload] = {}
        """By id, in order of arrival."""
        self._turns: dict[str, asyncio.Lock] = {}
        """The running upload of each tenant holds the tenant's lock."""
        self._unsaved: dict[str, UploadStatus] = {}
        """Finished uploads whose status could not be written."""
        queued.set_function(lambda: len(self._uploads))
        self._group: asyncio.TaskGroup
        workers.on(STATUS, self._status_here)
        workers.on(CANCEL, self._cancel_here)

    def __repr__(self) -> str:
        return f"<UploadQueue: {len(self._uploads)} uploads>"

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run uploads during the block; those that are not finished at its end are lost."""
        try:
            async with asyncio.TaskGroup() as self._group:
                renewing = self._group.create_task(self._renew_shared())
                yield
                renewing.cancel()
                for upload in self._uploads.values():
                    if upload.task is not None:
                        upload.task.cancel()
        finally:
            await asyncio.to_thread(self._statuses.close)
            if self._shared is not None:
                await self._shared.aclose()

    def check_room(self, tenant_id: str, size: int = 0) -> None:
        """Check that an upload can be added. Raises ImportBusy."""
        sizes = [it.size for it in self._uploads.values()]
        own = [it.size for it in self._of_tenant(tenant_id)]
        if (
            len(sizes) >= MAX_QUEUED
            or len(own) >= MAX_QUEUED * TENANT_SHARE
            or sum(sizes) + size > self._max_bytes
            or sum(own) + size > self._max_bytes * TENANT_SHARE
        ):
            raise ImportBusy(
                "too many uploads are waiting, or too many of this tenant; try again later",
                retry_after_s=BUSY_RETRY_S,
            )

    async def add(
        self, parsed: ParsedRequest[None], tenant_id: str, doc_id: str, file: FileIO, work: Work
    ) -> UploadStatus:
        """Add an upload and return its status; its end closes the file.

        Raises ImportBusy, StoreUnavailable.
        """
        self.check_room(tenant_id, file.tell())
        status = UploadStatus(
            upload_id=self._statuses.new_id(),
            tenant_id=tenant_id,
            doc_id=doc_id,
            state="queued",
            accepted_at=datetime.now(UTC),
        )
        later = ParsedRequest(Request(continued_scope(parsed.request.scope)), None, parsed.trace_id)
        upload = RunningUpload(status=status, parsed=later, file=file, size=file.tell(), work=work)
        self._uploads[status.upload_id] = upload
        try:
            await self._statuses.keep(status)
            if self._shared is not None:
                await self._shared.add(self._shown(upload))
        except BaseException:
            self._forget(upload)
            raise
        upload.task = self._group.create_task(self._run(upload))
        # also if it is cancelled before its start
        upload.task.add_done_callback(lambda _: self._forget(upload))
        return self._shown(upload)

    async def find(self, upload_id: str) -> UploadStatus | None:
        """Return the status of an upload; None if it is unknown. Raises StoreUnavailable."""
        here = self._find_here(upload_id)
        if here is not None:
            return here
        status = await self._statuses.find(upload_id)
        if status is None and self._shared is not None:
            return await self._shared.find(upload_id)
        if status is None or status.is_finished:
            return status
        found = next(filter(None, await self._workers.ask(STATUS, upload_id)), None)
        return status if found is None else UploadStatus.model_validate(found)

    async def cancel(self, upload_id: str) -> None:
        """End an upload that is not yet being stored; of another replica, within seconds.

        Raises StoreUnavailable.
        """
        if upload_id in self._uploads:
            await self._cancel_here(upload_id)
        elif self._shared is None or await self._statuses.find(upload_id) is not None:
            await self._workers.tell(CANCEL, upload_id)
        else:
            await self._shared.cancel(upload_id)

    async def _renew_shared(self) -> None:
        """Write the statuses of uploads to the shared store, and end those cancelled there."""
        while self._shared is not None:
            await asyncio.sleep(RENEW_S)
            for upload_id, upload in list(self._uploads.items()):
                if upload_id in self._uploads and await self._shared.renew(self._shown(upload)):
                    await self._cancel_here(upload_id)

    async def _cancel_here(self, upload_id: str) -> None:
        upload = self._uploads.get(upload_id)
        if upload is not None and upload.task is not None and not upload.is_being_stored:
            upload.is_cancelled = True
            upload.task.cancel()
            await asyncio.wait([upload.task])

    def _status_here(self, upload_id: str) -> Mapping[str, object] | None:
        status = self._find_here(upload_id)
        return None if status is None else status.model_dump()

    def _find_here(self, upload_id: str) -> UploadStatus | None:
        upload = self._uploads.get(upload_id)
        return self._unsaved.get(upload_id) if upload is None else self._shown(upload)

    def _shown(self, upload: RunningUpload) -> UploadStatus:
        status = upload.status.model_copy()
        if status.state == "queued":
            own = self._of_tenant(status.tenant_id)
            status.position = [it for it in own if it.status.state == "queued"].index(upload) + 1
        return status

    def _of_tenant(self, tenant_id: str) -> list[RunningUpload]:
        return [it for it in self._uploads.values() if it.status.tenant_id == tenant_id]

    async def _run(self, upload: RunningUpload) -> None:
        parsed = upload.parsed
        scope, trace_id = parsed.request.scope, parsed.trace_id
        try:
            response = await self._lifecycle.track(self._in_turn(upload))
            self._refusals.record_operation(scope, "OK", trace_id)
        except ProxyError as error:
            self._refusals.record_refusal(scope, error, trace_id)
            response = error_response(without_frames(error), trace_id)
        except asyncio.CancelledError:
            self._refusals.record_operation(scope, "CANCELLED", trace_id)
            if not upload.is_cancelled:
                raise
            await self._finish(upload, "cancelled")
            return
        except Exception:  # as of a request: must not end the other uploads
            log.exception("document.upload_failed", trace_id=trace_id)
            self._refusals.record_operation(scope, InternalError.code, trace_id)
            response = error_response(InternalError(), trace_id)
        state: State = "failed" if response.status_code >= HTTPStatus.BAD_REQUEST else "succeeded"
        await self._finish(upload, state, response)

    async def _in_turn(self, upload: RunningUpload) -> Response:
        async with self._turns.setdefault(upload.status.tenant_id, asyncio.Lock()):
            self._lifecycle.check_serving()
            upload.status.state = "running"
            upload.status.started_at = datetime.now(UTC)
            return await upload.work(upload)

    async def _finish(
        self, upload: RunningUpload, state: State, response: Response | None = None
    ) -> None:
        # a second cancellation interrupted the write of the status
        upload.is_being_stored = True
        status = upload.status
        status.state, status.finished_at = state, datetime.now(UTC)
        if response is not None:
            status.status_code = response.status_code
            status.answer = from_json(bytes(response.body))
        if self._shared is not None:
            await self._shared.finish(status)
        try:
            await self._statuses.keep(status)
        except StoreUnavailable as error:
            log.warning("document.upload_status_not_kept", reason=error.reason)
            self._unsaved[status.upload_id] = status
            if len(self._unsaved) > MAX_KEPT:
                del self._unsaved[next(iter(self._unsaved))]

    def _forget(self, upload: RunningUpload) -> None:
        upload.file.close()
        self._uploads.pop(upload.status.upload_id, None)
        if not self._of_tenant(upload.status.tenant_id):
            self._turns.pop(upload.status.tenant_id, None)
