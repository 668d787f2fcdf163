import asyncio
import sys
from collections.abc import Mapping
from typing import cast

import pytest

from mcp_tools_proxy.documents.document_store import DocumentStore, Key
from mcp_tools_proxy.documents.page_images import NotRendered, PageImages, PageRenderer
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.errors import PageImageUnavailable
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.tables import each_row

HEAD = head_of(make_document(pages=("one", "two", "three")))
READ = "import sys, uuid; data = sys.stdin.buffer.read(); out = sys.stdout.buffer\n"
DRAW = (
    f"{READ}image = uuid.uuid4().bytes\n"
    "out.write(b'image image/png %d 3 4\\n' % len(image) + image)"
)
"""A program whose images all differ."""


def renderer(program: str, *, timeout_s: float = BOUND_S) -> PageRenderer:
    worker = (sys.executable, "-c", program)
    return PageRenderer(max_image_bytes=100, worker=worker, timeout_s=timeout_s)


class FakeOriginals:
    """A DocumentStore with originals only; ``tags`` are by version."""

    def __init__(self, tags: Mapping[str, str]) -> None:
        self.tags = dict(tags)

    async def original_tag(self, key: Key, version: str) -> str | None:
        return self.tags.get(version)

    async def read_original(self, key: Key, version: str) -> bytes | None:
        return b"%PDF" if version in self.tags else None


def images(
    program: str = DRAW, *, cache_bytes: int = 10_000, timeout_s: float = BOUND_S
) -> tuple[PageImages, FakeOriginals]:
    store = FakeOriginals({HEAD.version: "first"})
    made = PageImages(
        cast("DocumentStore", store),
        renderer(program, timeout_s=timeout_s),
        cache_bytes=cache_bytes,
    )
    return made, store


async def data(made: PageImages, page: int = 1, head: DocumentHead = HEAD) -> bytes:
    return (await made.image(head, page)).data


async def test_an_image_is_rendered_once() -> None:
    made, _ = images()
    first, other = await data(made), await data(made, 2)
    assert [await data(made), await data(made, 2)] == [first, other]
    assert first != other


async def test_another_file_of_the_same_version_is_rendered_again() -> None:
    made, store = images()
    first = await data(made)
    store.tags[HEAD.version] = "second"
    assert await data(made) != first


async def test_an_image_is_unavailable_after_the_file_was_removed() -> None:
    made, store = images()
    await data(made)
    store.tags.clear()
    with pytest.raises(PageImageUnavailable, match="no PDF is kept"):
        await data(made)


async def test_the_least_recently_used_images_are_evicted() -> None:
    made, _ = images(cache_bytes=40)  # two of 16 bytes
    seen = [await data(made, page) for page in (1, 2, 1, 3)]
    assert [await data(made, 1), await data(made, 3)] == [seen[0], seen[3]]
    assert await data(made, 2) != seen[1]


@each_row(
    ("program", "reason"),
    [
        (f"{READ}out.write(b'failed \"it is torn\"\\n')", "it is torn"),
        ("import os; os.abort()", "the renderer failed"),
        (f"{READ}out.write(b'image image/png 101 3 4\\n' + bytes(101))", "the renderer failed"),
        (f"{READ}out.write(b'image image/png 50 3 4\\n' + bytes(3))", "the renderer failed"),
        (f"{READ}out.write(b'image text/html 1 3 4\\nx')", "the renderer failed"),
        (f"{READ}out.write(bytes(1_000_000))", "the renderer failed"),
        (f"{READ}out.write(b'failed {{}}{{}}\\n')", "the renderer failed"),
    ],
)
async def test_a_failing_renderer_is_a_permanent_error(program: str, reason: str) -> None:
    made, _ = images(program)
    with pytest.raises(PageImageUnavailable, match=reason) as refused:
        await data(made)
    assert not refused.value.retryable


async def test_a_rendering_timeout_is_a_temporary_error() -> None:
    made, _ = images("import time; time.sleep(3600)", timeout_s=0.2)
    with pytest.raises(PageImageUnavailable, match="was not rendered within") as refused:
        await data(made)
    assert refused.value.retryable


async def test_failing_to_start_a_process_is_a_temporary_error() -> None:
    made = PageRenderer(max_image_bytes=100, worker=("/no/such/program",))
    with pytest.raises(NotRendered) as refused:
        await made.render(b"%PDF", 1)
    assert not refused.value.is_lasting


async def test_a_tenant_renders_one_page_at_a_time() -> None:
    made = renderer(DRAW)
    held: list[str] = []
    free = asyncio.Event()

    async def hold(tenant_id: str) -> None:
        async with made.place(tenant_id):
            held.append(tenant_id)
            await free.wait()

    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        for tenant_id in ("acme", "acme", "acme", "globex", "initech"):
            group.create_task(hold(tenant_id))
        for _ in range(20):
            await asyncio.sleep(0)
        first = list(held)
        free.set()
    assert first == ["acme", "globex"]
    assert sorted(held) == ["acme", "acme", "acme", "globex", "initech"]
