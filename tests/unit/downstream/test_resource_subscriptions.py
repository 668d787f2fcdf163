import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from mcp_tools_proxy.downstream.resource_subscriptions import (
    MAX_SUBSCRIBED_BY_TENANT,
    ResourceSubscriptions,
)
from tests.support.leak_checks import texts_reachable_from
from tests.support.tables import each_row

URIS = ("test://a", "test://ab", "test://a/b", "test://b")


@asynccontextmanager
async def subscribed(*uris: str) -> AsyncIterator[tuple[ResourceSubscriptions, list[str]]]:
    """Subscribe to each URI; the list receives the URIs of notified listeners."""
    subscriptions, called = ResourceSubscriptions(), list[str]()
    async with asyncio.TaskGroup() as tasks:
        for uri in uris:
            tasks.create_task(subscriptions.subscribe(uri, partial(called.append, uri), "tenant_1"))
        await asyncio.sleep(0)
        for uri in uris:
            subscriptions.record_answer(uri)
    yield subscriptions, called


@each_row(
    ("updated", "concerned"),
    [
        ("test://a", ["test://a"]),
        ("test://ab", ["test://ab"]),
        ("test://a/b", ["test://a", "test://a/b"]),
        ("test://a/b/c", ["test://a", "test://a/b"]),
        ("test://", []),
        (None, [*URIS]),
    ],
)
async def test_an_update_notifies_the_resource_and_its_parents(
    updated: str | None, concerned: list[str]
) -> None:
    async with subscribed(*URIS) as (subscriptions, called):
        subscriptions.on_updated(updated)
    assert called == concerned


async def test_the_subscriptions_of_a_tenant_are_limited() -> None:
    uris = [f"test://{number}" for number in range(MAX_SUBSCRIBED_BY_TENANT)]
    async with subscribed(*uris) as (subscriptions, _):
        assert (
            subscriptions.has_capacity("test://new", "tenant_1"),
            subscriptions.has_capacity(uris[0], "tenant_1"),
            subscriptions.has_capacity("test://new", "tenant_2"),
        ) == (False, True, True)


async def test_tenants_without_subscriptions_are_removed_from_memory() -> None:
    async with subscribed("test://a") as (subscriptions, _):
        for number in range(20):
            (await subscriptions.subscribe("test://a", lambda: None, f"guest_{number}"))()
    assert [it for it in texts_reachable_from(subscriptions) if it.startswith("guest_")] == []
