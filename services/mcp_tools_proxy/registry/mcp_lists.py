"""Lists as MCP gives them: each definition is made once, a list picks those that its viewer sees.

What is made is shared by all lists: an agent costs no more memory than its mask and a tag.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import compress
from typing import Generic, Self

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject, Prompt, Resource, ResourceTemplate, Tool
from mcp_tools_proxy.policy.aliases import ToolNameStyle, qualified_name
from mcp_tools_proxy.registry.table import WITHOUT_AGENT, ItemT, Table, Viewer
from mcp_tools_proxy.wire.uris import is_url

KEPT_LISTS = 32
"""How many lists of one kind are kept ready; who asked is likely to ask again."""

NameFor = Callable[[ItemT, Viewer], str]
"""Gives a name by which a viewer gets this very item; the same for all who see the same."""


@dataclass(frozen=True, slots=True)
class McpList:
    """One list for one caller; its definitions are shared, so never change one.

    ``etag`` follows from the definitions and their order alone, also after a restart.
    """

    definitions: Sequence[JsonObject]
    etag: str


class McpLists(Generic[ItemT]):
    """The lists of one kind of component; ``key`` is what MCP names this kind by."""

    def __init__(self, table: Table[ItemT], *, key: str, name_for: NameFor[ItemT]) -> None:
        self._table = table
        self._key = key
        self._name_for = name_for
        self._made: dict[tuple[int, str], JsonObject] = {}
        """The definitions, by the place of what they define and the name that they give it."""
        self._digests: dict[int, bytes] = {}
        """By the ids of the definitions, which live as long."""
        self._lists: dict[bytes, Sequence[JsonObject]] = {}
        self._takeable: dict[bytes, Sequence[JsonObject]] = {}
        """Those of each list that every client takes: one odd URI, and some refuse all."""
        self._etags: dict[bytes, str] = {}

    def names_for(self, viewer: Viewer) -> Iterable[str]:
        """Name what ``viewer`` may use, in the list's order."""
        return (self._name_for(item, viewer) for item in self._table.visible_to(viewer))

    def definitions_for(self, viewer: Viewer) -> Sequence[JsonObject]:
        """List what ``viewer`` may use."""
        mask = self._table.visibility_mask(viewer)
        shown = self._lists.get(mask)
        if shown is None:
            places = compress(range(len(mask)), mask)
            shown = tuple(map(self._define, places, self.names_for(viewer)))
            _keep(self._lists, mask, shown)
        return shown

    async def list_for(self, viewer: Viewer) -> McpList:
        """List what ``viewer`` may use and every MCP client takes, with the list's tag."""
        mask = self._table.visibility_mask(viewer)
        listed = self._takeable.get(mask)
        if listed is None:
            shown = self.definitions_for(viewer)
            listed = tuple(it for it in shown if self._key != "uri" or is_url(it.get("uri")))
            _keep(self._takeable, mask, listed)
        etag = self._etags.get(mask)
        if etag is None:
            self._etags[mask] = etag = await self._etag_of(listed)
        return McpList(listed, etag)

    def _define(self, place: int, name: str) -> JsonObject:
        """Give a descriptor under a name."""
        made = self._made.get((place, name))
        if made is None:
            descriptor = self._table.items[place].spec.as_mcp
            key = self._key if self._key in descriptor else "name"  # a resource without URI (P-12)
            made = descriptor if descriptor[key] == name else {**descriptor, key: name}
            self._made[place, name] = made
        return made

    async def _etag_of(self, shown: Sequence[JsonObject]) -> str:
        """Digest what was not yet, in a thread: a server says how large its schemas are."""
        missing = [it for it in shown if id(it) not in self._digests]
        if missing:
            digests = await asyncio.to_thread(lambda: [_digest(to_json(it)) for it in missing])
            self._digests.update(zip(map(id, missing), digests, strict=True))
        whole = _digest(b"".join(self._digests[id(it)] for it in shown))
        return f'"{whole.hex()}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class McpListings:
    """The lists of every kind of one registry's components."""

    tools: McpLists[Tool]
    prompts: McpLists[Prompt]
    resources: McpLists[Resource]
    templates: McpLists[ResourceTemplate]

    @classmethod
    def of(
        cls,
        tools: Table[Tool],
        prompts: Table[Prompt],
        resources: Table[Resource],
        templates: Table[ResourceTemplate],
        tool_names: ToolNameStyle,
    ) -> Self:
        """Make the lists; what is no tool goes by its bare name where that means one item."""
        return cls(
            tools=McpLists(tools, key="name", name_for=_tool_namer(tools, tool_names)),
            prompts=McpLists(prompts, key="name", name_for=_shortest_unique_name(prompts)),
            resources=McpLists(resources, key="uri", name_for=_shortest_unique_name(resources)),
            templates=McpLists(
                templates, key="uriTemplate", name_for=_shortest_unique_name(templates)
            ),
        )


def _tool_namer(table: Table[Tool], style: ToolNameStyle) -> NameFor[Tool]:
    """Name tools in a style, the same for every viewer.

    A bare name that does not lead to its tool alone is none to go by: then it is ``server:tool``.
    """

    def bare(tool: Tool, _viewer: Viewer) -> str:
        name = tool.spec.bare_name
        return name if table.find(name, WITHOUT_AGENT) == (tool,) else tool.spec.name

    match style:
        case ToolNameStyle.SERVER:
            return lambda tool, _: tool.spec.name
        case ToolNameStyle.ALIAS:
            return lambda tool, _: tool.spec.alias
        case ToolNameStyle.BARE:
            return bare


def _shortest_unique_name(table: Table[ItemT]) -> NameFor[ItemT]:
    """Name items by the shortest name that gets the viewer this very item."""

    def name_for(item: ItemT, viewer: Viewer) -> str:
        spec = item.spec
        if table.find(spec.bare_name, viewer) == (item,):
            return spec.bare_name
        return qualified_name(spec.server_id or "", spec.bare_name)

    return name_for


def _keep(lists: dict[bytes, Sequence[JsonObject]], mask: bytes, one: Sequence[JsonObject]) -> None:
    """Keep a list ready, in place of the oldest one where there are enough."""
    if len(lists) == KEPT_LISTS:
        del lists[next(iter(lists))]
    lists[mask] = one


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
