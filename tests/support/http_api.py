"""Requests of an agent over every route, to two servers with many common items."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.support.configuration import Config, Json, make_preset
from tests.support.local_tools import of_servers
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import (
    BATCH,
    EXECUTE,
    PROMPTS,
    RESOURCES,
    TOOLS,
    Envelope,
    Service,
    running,
)

USER = {"user_id": "u", "tenant_id": "t"}
TEXT = "raw://text"
ITEM = "raw://item/{id}"
ITEM_7 = "raw://item/7"
OWN = {"a": "alpha", "a-b": "beta"}
"""Items unique to each server: a tool, a prompt and the resource ``raw://…`` of this name."""

ALPHA = {"execute": "a:alpha", "batch": "a__alpha", "prompt": "alpha", "resource": "raw://alpha"}
"""Items unique to server a, under the names accepted by each entry."""

DOCUMENT_TOOL = "read_doc_metadata"
DOC_1 = {"doc_id": "doc_1"}

ENTRIES = ("execute", "batch", "prompt", "resource")
KIND = {"execute": "tool", "batch": "tool", "prompt": "prompt", "resource": "resource"}
DENIED = {entry: f"{kind.upper()}_NOT_ALLOWED" for entry, kind in KIND.items()}
UNKNOWN = {entry: f"{kind.upper()}_NOT_FOUND" for entry, kind in KIND.items()}

USES = ("tools/call", "prompts/get", "resources/read")

EVERYTHING = make_preset(
    tools=[(server, name) for server, own in OWN.items() for name in ("whoami", own)]
)


class Listed(NamedTuple):
    tools: list[str]
    prompts: list[str]
    resources: list[str]
    templates: list[str]


ALL_OF_BOTH = Listed(
    tools=["a:whoami", "a:alpha", "a-b:whoami", "a-b:beta"],
    prompts=["a:greet", "a-b:greet", "a:plain", "a-b:plain", "alpha", "beta"],
    resources=[f"a:{TEXT}", f"a-b:{TEXT}", "raw://alpha", "raw://beta"],
    templates=[f"a:{ITEM}", f"a-b:{ITEM}"],
)
"""The view of an agent without restrictions: names unique to one server are bare."""

NOTHING = Listed([], [], [], [])


class Two(NamedTuple):
    """A service, and the servers ``a`` and ``a-b`` behind it, which return their own names."""

    service: Service
    a: RawServer
    a_b: RawServer

    @property
    def uses(self) -> int:
        return sum(it.script.requests[method] for it in (self.a, self.a_b) for method in USES)


def offer(own: str, more: Mapping[str, Sequence[Json]] | None = None) -> Json:
    """Build the options of a server with the items of ``own``, and ``more`` by list."""
    extra: dict[str, list[Json]] = {
        "tools": [{"name": own, "description": f"Is {own}.", "inputSchema": {"type": "object"}}],
        "prompts": [{"name": own}],
        "resources": [{"uri": f"raw://{own}", "name": own}],
    }
    for kind, items in (more or {}).items():
        extra[kind] = [*extra.get(kind, ()), *items]
    return {"only": ("whoami",), "extra": extra}


@asynccontextmanager
async def two_servers(
    *agents: Json,
    exclude: Mapping[str, Sequence[str]] | None = None,
    presets: Sequence[Json] = (EVERYTHING,),
    more: Mapping[str, Sequence[Json]] | None = None,
    require_agent: bool | None = None,
    **settings: Any,
) -> AsyncIterator[Two]:
    """Serve both servers to ``agents``; ``exclude`` is that of mcp.json, by server id.

    The first of ``presets`` is the active one. Both servers also offer ``more``.
    """
    async with (
        running_raw(name="a", **offer(OWN["a"], more)) as a,
        running_raw(name="a-b", **offer(OWN["a-b"], more)) as a_b,
    ):
        config = config_of(a, a_b, *agents, exclude=exclude, presets=presets)
        async with running(config=config, require_agent=require_agent, **settings) as service:
            yield Two(service, a, a_b)


def config_of(
    a: RawServer,
    a_b: RawServer,
    *agents: Json,
    exclude: Mapping[str, Sequence[str]] | None = None,
    presets: Sequence[Json] = (EVERYTHING,),
) -> Config:
    servers = {"a": a.entry, "a-b": a_b.entry}
    for server_id, excluded in (exclude or {}).items():
        servers[server_id] = servers[server_id] | {"exclude": list(excluded)}
    default = {"defaultPresetId": presets[0]["id"]} if presets else {}
    return Config(servers=servers, presets=presets, agents=agents or None, more=default)


async def listed(service: Service, agent: str | None = None) -> Listed:
    query = {} if agent is None else {"agent": agent}
    tools = (await service.get(TOOLS, **query))["tools"]
    prompts = (await service.get(PROMPTS, **query))["prompts"]
    resources = await service.get(RESOURCES, **query)
    return Listed(
        tools=[tool["name"] for tool in tools if ":" in tool["name"]],
        prompts=[prompt["name"] for prompt in prompts],
        resources=[it["uri"] for it in resources["resources"]],
        templates=of_servers(it["uriTemplate"] for it in resources["resource_templates"]),
    )


async def use(service: Service, entry: str, name: str, agent: str | None = None) -> Envelope:
    """Use the item ``name`` through one of ENTRIES, and return the envelope."""
    body: Json = {"user": USER} | ({} if agent is None else {"agent": agent})
    match entry:
        case "execute":
            route, body = EXECUTE, body | {"tool_name": name}
        case "batch":
            route, body = BATCH, body | {"calls": [{"tool_name": name}]}
        case "prompt":
            arguments = {"name": "x"} if name.endswith("greet") else {}
            route, body = f"{PROMPTS}/get", body | {"name": name, "arguments": arguments}
        case _:
            route, body = f"{RESOURCES}/read", body | {"uri": name}
    answer: Envelope = (await service.http.post(route, json=body)).json()
    first: Envelope = answer["results"][0] if "results" in answer else answer
    return first


async def code(service: Service, entry: str, name: str, agent: str | None = None) -> str:
    envelope = await use(service, entry, name, agent)
    return "OK" if envelope["status"] == "ok" else str(envelope["error"]["code"])


async def reached(service: Service, entry: str, name: str, agent: str | None = None) -> str:
    """Use the item ``name`` and return the reached item, as ``bare name of server``."""
    result = (await use(service, entry, name, agent))["result"]
    if "messages" in result:
        text: str = result["messages"][0]["content"]["text"]
        return text.partition(" for ")[0]
    if "contents" in result:
        return str(result["contents"][0]["text"])
    who = result["structured_content"]
    return f"{who['tool']} of {who['server']}"
