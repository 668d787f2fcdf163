"""Uploads that are cancelled while they are received."""

import asyncio
import gc
import warnings

from fastapi import Request
from starlette.types import Message

from mcp_tools_proxy.http.api.document_upload import Uploads


async def test_an_upload_cancelled_at_any_step_leaves_no_open_file() -> None:
    uploads = Uploads(
        max_document_bytes=1000,
        keep_originals=False,
        ocr_languages=(),
        ocr_timeout_s=1,
        with_link_targets=True,
        with_notes=True,
    )

    async def receive() -> Message:
        return {"type": "http.request", "body": b"text", "more_body": True}

    gc.collect()
    gc.freeze()  # what other tests left takes seconds to search
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        for steps in range(12):
            request = Request({"type": "http", "method": "PUT", "headers": []}, receive)
            receiving = asyncio.ensure_future(uploads.receive(request, "acme"))
            for _ in range(steps):
                await asyncio.sleep(0)
            receiving.cancel()
            await asyncio.wait([receiving])
            gc.collect()
    gc.unfreeze()
    assert [str(it.message) for it in found if it.category is ResourceWarning] == []
