"""Writes the body of an upload to a temporary file, within its limit."""

import asyncio
import errno
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from fastapi import Request

from mcp_tools_proxy.domain.errors import PayloadTooLarge, StoreUnavailable
from mcp_tools_proxy.web.body import discard

_PREFIX = "mcp-tools-proxy-upload-"


@asynccontextmanager
async def spooled(request: Request, max_bytes: int) -> AsyncIterator[Path]:
    """Write the body to a temporary file, which is removed with the block.

    Raises PayloadTooLarge, and StoreUnavailable where there is no room for it.
    """
    try:
        descriptor, name = await asyncio.to_thread(tempfile.mkstemp, prefix=_PREFIX)
    except OSError as error:  # also a temporary folder that is full of files, or gone
        raise _storage_full(error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            await _write_body(request, file, max_bytes)
        yield Path(name)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise _storage_full(error) from error
    finally:
        await asyncio.to_thread(Path(name).unlink, missing_ok=True)


def _storage_full(error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        "there is no room for the upload on this machine; try again later, or tell an operator",
        reason=str(error.strerror),
    )


async def _write_body(request: Request, file: BinaryIO, max_bytes: int) -> None:
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > max_bytes:
            await discard(request.receive, size)
            raise PayloadTooLarge(
                f"the document is over {max_bytes} bytes; send it in several",
                details={"max_document_bytes": max_bytes},
            )
        await asyncio.to_thread(file.write, piece)
