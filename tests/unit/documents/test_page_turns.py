import asyncio
import sys
from contextlib import AsyncExitStack

from mcp_tools_proxy.documents.page_images import (
    MOST_OF_TENANT,
    MOST_WAITING,
    NotRendered,
    PageRenderer,
)
from tests.support.bounds import BOUND_S, until


async def test_pages_of_one_tenant_never_take_both_slots() -> None:
    renderer = PageRenderer(max_image_bytes=1000)
    inside = most = 0

    async def draw() -> None:
        nonlocal inside, most
        for _ in range(3):  # a caller that arrives while another leaves finds the same lock
            async with renderer.place("acme"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

    await asyncio.gather(*(draw() for _ in range(5)))
    assert most == 1
    assert repr(renderer) == "<PageRenderer: 0 running, 0 waiting>"


SLOW_OR_QUICK = (
    "import sys, time\n"
    "data, out = sys.stdin.buffer.read(), sys.stdout.buffer\n"
    "time.sleep(600 if data.endswith(b'slow') else 0)\n"
    "out.write(b'image image/png 1 3 4\\nx')"
)
"""A renderer that never finishes a PDF whose name ends with "slow"."""


async def drawn(renderer: PageRenderer, tenant_id: str, pdf: bytes) -> str:
    """Return the reason why a page is not rendered, or "" if it is."""
    try:
        async with renderer.place(tenant_id):
            await renderer.render(pdf, 1)
    except NotRendered as error:
        return f"{error.reason}, lastingly" if error.is_lasting else error.reason
    return ""


async def test_slow_pages_of_two_tenants_are_stopped_while_a_third_waits() -> None:
    worker = (sys.executable, "-c", SLOW_OR_QUICK)
    renderer = PageRenderer(max_image_bytes=1000, worker=worker, share_s=0, wait_s=BOUND_S)
    async with asyncio.TaskGroup() as group:
        slow = [
            group.create_task(drawn(renderer, tenant_id, b"slow"))
            for tenant_id in ("acme", "globex")
        ]
        await until(lambda: "2 running" in repr(renderer))
        assert await drawn(renderer, "victim", b"quick") == ""
        for task in slow:
            task.cancel()
    reasons = [task.result() for task in slow if not task.cancelled()]
    assert any("it took over 0 s while other tenants waited" in it for it in reasons)
    assert repr(renderer) == "<PageRenderer: 0 running, 0 waiting>"


async def test_a_page_has_the_full_timeout_while_other_tenants_do_not_wait() -> None:
    worker = (sys.executable, "-c", SLOW_OR_QUICK)
    renderer = PageRenderer(max_image_bytes=1000, worker=worker, share_s=0)
    found = await asyncio.gather(*(drawn(renderer, "acme", b"quick") for _ in range(3)))
    assert found == [""] * 3


async def test_the_number_of_waiting_pages_is_bounded() -> None:
    renderer = PageRenderer(max_image_bytes=1000)
    async with AsyncExitStack() as stack:
        for tenant_id in ("acme", "globex"):
            await stack.enter_async_context(renderer.place(tenant_id))
        async with asyncio.TaskGroup() as group:
            waiting = [
                *(group.create_task(drawn(renderer, "acme", b"")) for _ in range(MOST_OF_TENANT)),
                *(group.create_task(drawn(renderer, f"t{n}", b"")) for n in range(MOST_WAITING)),
            ]
            await until(lambda: f"{MOST_WAITING} waiting" in repr(renderer))
            of_tenant = await drawn(renderer, "acme", b"")
            of_others = await drawn(renderer, "one more", b"")
            for task in waiting:
                task.cancel()
    assert of_tenant == f"{MOST_OF_TENANT} other pages of this tenant wait"
    assert of_others == "too many tenants are waiting for a page"
    assert repr(renderer) == "<PageRenderer: 0 running, 0 waiting>"


async def test_a_page_that_waits_too_long_is_refused() -> None:
    renderer = PageRenderer(max_image_bytes=1000, wait_s=0)
    async with renderer.place("acme"), renderer.place("globex"):
        reasons = [await drawn(renderer, it, b"") for it in ("acme", "initech")]
    assert reasons == [
        "other pages of this tenant are being rendered",
        "pages of other tenants are being rendered",
    ]
