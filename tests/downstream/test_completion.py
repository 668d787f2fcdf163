import json
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import Component
from mcp_tools_proxy.domain.errors import InvalidArguments, ToolFailed
from tests.downstream.connections import SERVER_KINDS
from tests.downstream.relay_fixtures import Relay, relaying, used

ARGUMENT = {"name": "name", "value": "Ö"}


def prompt_of(relay: Relay) -> Component:
    return next(p for p in relay.components.prompts if p.spec.name == "greet").completion


async def completed(relay: Relay, **arguments: Any) -> Any:
    result = await used(prompt_of(relay), kind=Kind.PROMPT, arguments=arguments)
    return result.value["completion"]


@pytest.mark.parametrize("kind", SERVER_KINDS)
async def test_a_prompts_argument_is_completed_by_its_server(kind: str) -> None:
    context = {"arguments": {"other": "x"}}
    async with relaying(kind) as relay:
        found = await completed(relay, argument=ARGUMENT, context=context)
        assert (found["total"], found["hasMore"]) == (1, False)
        assert json.loads(found["values"][0]) == {
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": ARGUMENT,
            "context": context,
        }


async def test_a_templates_variable_is_completed_by_its_server() -> None:
    async with relaying("http-modern") as relay:
        (template,) = relay.components.templates
        arguments = {"argument": ARGUMENT}
        result = await used(template.completion, kind=Kind.RESOURCE, arguments=arguments)
        (value,) = result.value["completion"]["values"]  # type: ignore[index]
        ref = {"type": "ref/resource", "uri": "raw://item/{id}"}
        assert json.loads(value) == {"ref": ref, "argument": ARGUMENT}


async def test_a_server_without_completions_gets_no_request() -> None:
    async with relaying("http-legacy", without=("completions",)) as relay:
        assert await completed(relay, argument=ARGUMENT) == {"values": []}
        assert relay.script.requests["completion/complete"] == 0


async def test_more_than_100_values_are_cut_to_100_and_marked() -> None:
    async with relaying("http-modern") as relay:
        found = await completed(relay, argument={"name": "name", "value": "many"})
        assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 150, True)


async def test_an_invalid_completion_is_an_error() -> None:
    async with relaying("http-modern") as relay:
        with pytest.raises(ToolFailed, match="is not a completion"):
            await completed(relay, argument={"name": "name", "value": "odd"})


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"argument": "x"},
        {"argument": {"name": "x"}},
        {"argument": {"name": "x", "value": 1}},
        {"argument": ARGUMENT, "context": "x"},
        {"argument": ARGUMENT, "context": {"arguments": {"a": 1}}},
    ],
)
async def test_an_invalid_completion_request_is_refused(arguments: dict[str, Any]) -> None:
    async with relaying("http-modern") as relay:
        with pytest.raises(InvalidArguments):
            await completed(relay, **arguments)
