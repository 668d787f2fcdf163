"""A tenant's pages are rendered one after the other, however many wait."""

import asyncio

from mcp_tools_proxy.documents.page_images.page_renderer import PageRenderer


async def test_pages_of_one_tenant_never_take_both_places() -> None:
    renderer = PageRenderer(max_image_bytes=1000)
    inside = most = 0

    async def draw() -> None:
        nonlocal inside, most
        for _ in range(3):  # who comes as another leaves finds the same lock
            async with renderer.place("acme"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

    await asyncio.gather(*(draw() for _ in range(5)))
    assert most == 1
    assert repr(renderer) == "<PageRenderer: pages of 0 tenants>"
