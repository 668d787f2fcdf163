"""Resources and templates of downstream servers: listed and read by the active preset."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.api.one_and_two import one_and_two
from tests.support.configuration import Pair
from tests.support.local_tools import of_servers
from tests.support.service import RESOURCES, Envelope, Service, running

USER = {"user_id": "u", "tenant_id": "t"}
MINE = "raw://mine"
TEXT = "raw://text"
ITEM = "raw://item/{id}"


def two_servers(era: str = "both", **preset: Any) -> AbstractAsyncContextManager[Service]:
    """Serve servers one and two, which share raw://text and a template; two also has mine."""
    return one_and_two({"resources": [{"uri": MINE, "name": "mine"}]}, era=era, **preset)


async def listed(service: Service) -> tuple[list[str], list[str]]:
    answer = await service.get(RESOURCES)
    return (
        [resource["uri"] for resource in answer["resources"]],
        of_servers(template["uriTemplate"] for template in answer["resource_templates"]),
    )


async def read(service: Service, uri: str, **more: object) -> Envelope:
    body = {"uri": uri, "user": USER, **more}
    envelope: Envelope = (await service.http.post(f"{RESOURCES}/read", json=body)).json()
    return envelope


def text_of(envelope: Envelope) -> str:
    text: str = envelope["result"]["contents"][0]["text"]
    return text


@pytest.mark.requirement("P-12")
async def test_unrestricted_resources_are_all_resources_of_the_servers_in_scope() -> None:
    async with two_servers(tools=[("two", "echo")]) as service:
        assert await listed(service) == ([TEXT, MINE], [ITEM])


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ([], ([], [])),
        ([("two", MINE)], ([MINE], [])),
        ([("one", ITEM)], ([], [ITEM])),
        ([("one", TEXT), ("two", MINE)], ([TEXT, MINE], [])),
    ],
)
@pytest.mark.requirement("P-12")
async def test_only_named_resources_are_available(
    named: list[Pair], expected: tuple[list[str], list[str]]
) -> None:
    async with two_servers(tools=[("one", "echo")], resources=named) as service:
        assert await listed(service) == expected


@pytest.mark.requirement("P-12", "F-14")
async def test_a_resource_outside_the_preset_cannot_be_read() -> None:
    async with two_servers(resources=[("one", TEXT)]) as service:
        codes = [(await read(service, u))["error"]["code"] for u in (MINE, "raw://item/1")]
        assert codes == ["RESOURCE_NOT_FOUND", "RESOURCE_NOT_FOUND"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.requirement("F-13")
async def test_a_resource_is_read_from_its_server(era: str) -> None:
    async with two_servers(era, resources=[("two", MINE)]) as service:
        assert text_of(await read(service, MINE)) == f"{MINE} of second"


@pytest.mark.requirement("P-13")
async def test_the_first_server_in_scope_wins_a_shared_uri() -> None:
    async with two_servers(tools=[("two", "echo"), ("one", "echo")]) as service:
        assert text_of(await read(service, TEXT)) == f"{TEXT} of second"


async def test_a_uri_of_a_template_is_read_unchanged() -> None:
    async with two_servers(resources=[("two", ITEM)]) as service:
        assert text_of(await read(service, "raw://item/7")) == "raw://item/7 of second"


@pytest.mark.requirement("F-15")
async def test_an_unknown_resource_is_not_found() -> None:
    async with two_servers(tools=[("one", "echo")]) as service:
        assert (await read(service, "raw://nowhere"))["error"]["code"] == "RESOURCE_NOT_FOUND"


@pytest.mark.parametrize("uri", [None, "", 1, "x" * 8193])
async def test_a_uri_is_a_string_that_is_neither_empty_nor_huge(uri: object) -> None:
    async with running() as service:
        body = {"uri": uri, "user": USER}
        response = await service.http.post(f"{RESOURCES}/read", json=body)
        assert (response.status_code, response.json()["error"]["details"]) == (
            422,
            {"field": "uri"},
        )


async def test_the_resource_list_of_an_unknown_agent_is_refused() -> None:
    async with running() as service:
        assert (await service.get(RESOURCES, agent="a"))["error"]["code"] == "AGENT_NOT_FOUND"


async def test_without_servers_the_list_of_resources_is_empty() -> None:
    async with running() as service:
        assert await listed(service) == ([], [])
