"""Prompts of downstream servers: listed and returned by the active preset."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.api.one_and_two import one_and_two
from tests.support.configuration import Pair
from tests.support.service import PROMPTS, Envelope, Service, running

USER = {"user_id": "u", "tenant_id": "t"}


def two_servers(era: str = "both", **preset: Any) -> AbstractAsyncContextManager[Service]:
    """Serve servers one and two, which share the prompts greet and plain; two also has mine."""
    mine = {"name": "mine", "arguments": [{"name": "name"}]}
    return one_and_two({"prompts": [mine]}, era=era, **preset)


async def names(service: Service) -> list[str]:
    return [prompt["name"] for prompt in (await service.get(PROMPTS))["prompts"]]


async def got(
    service: Service, name: str, arguments: Mapping[str, object] | None = None, **more: object
) -> Envelope:
    body = {"name": name, "arguments": arguments, "user": USER, **more}
    envelope: Envelope = (await service.http.post(f"{PROMPTS}/get", json=body)).json()
    return envelope


def text_of(envelope: Envelope) -> str:
    text: str = envelope["result"]["messages"][0]["content"]["text"]
    return text


@pytest.mark.requirement("P-10")
async def test_unrestricted_prompts_are_all_prompts_of_the_servers_in_scope() -> None:
    async with two_servers(tools=[("two", "echo")]) as service:
        assert await names(service) == ["greet", "plain", "mine"]


@pytest.mark.requirement("P-10")
async def test_prompts_of_a_server_out_of_scope_are_refused() -> None:
    async with two_servers(tools=[("one", "echo")]) as service:
        assert (await got(service, "mine"))["error"]["code"] == "PROMPT_NOT_FOUND"


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([], []),
        ([("two", "mine")], ["mine"]),
        ([("one", "plain"), ("two", "mine")], ["plain", "mine"]),
    ],
)
@pytest.mark.requirement("P-11")
async def test_only_listed_prompts_are_available(listed: list[Pair], expected: list[str]) -> None:
    async with two_servers(tools=[("one", "echo")], prompts=listed) as service:
        assert await names(service) == expected


@pytest.mark.requirement("P-11", "F-14")
async def test_a_prompt_outside_the_preset_is_refused_by_name() -> None:
    async with two_servers(prompts=[("two", "mine")]) as service:
        assert (await got(service, "plain"))["error"]["code"] == "PROMPT_NOT_FOUND"


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.requirement("F-13")
async def test_a_prompt_is_returned_by_its_server(era: str) -> None:
    async with two_servers(era, prompts=[("two", "mine")]) as service:
        assert text_of(await got(service, "mine", {"name": "Ann"})) == "mine of second for Ann"


@pytest.mark.requirement("P-13")
async def test_the_first_server_in_scope_wins_a_shared_prompt_name() -> None:
    async with two_servers(tools=[("two", "echo"), ("one", "echo")]) as service:
        assert (await names(service)).count("plain") == 1
        assert text_of(await got(service, "plain")) == "plain of second for all"


@pytest.mark.requirement("F-15")
async def test_an_unknown_prompt_is_not_found() -> None:
    async with two_servers(tools=[("one", "echo")]) as service:
        assert (await got(service, "nowhere"))["error"]["code"] == "PROMPT_NOT_FOUND"


async def test_the_error_for_a_missing_required_argument_names_it() -> None:
    async with two_servers(tools=[("one", "echo")]) as service:
        error = (await got(service, "greet"))["error"]
        assert (error["code"], "name" in error["message"]) == ("INVALID_ARGUMENTS", True)


async def test_a_prompt_request_without_a_name_is_invalid() -> None:
    async with running() as service:
        response = await service.http.post(f"{PROMPTS}/get", json={"user": USER})
        assert (response.status_code, response.json()["error"]["details"]) == (
            422,
            {"field": "name"},
        )


async def test_an_unknown_agent_gets_no_prompt() -> None:
    async with two_servers(tools=[("one", "echo")]) as service:
        assert (await got(service, "plain", agent="a"))["error"]["code"] == "AGENT_NOT_FOUND"


async def test_the_prompt_list_of_an_unknown_agent_is_refused() -> None:
    async with running() as service:
        assert (await service.get(PROMPTS, agent="a"))["error"]["code"] == "AGENT_NOT_FOUND"


async def test_a_tool_is_not_found_as_a_prompt() -> None:
    async with running() as service:
        assert (await got(service, "read_doc_metadata"))["error"]["code"] == "PROMPT_NOT_FOUND"
