"""MCP lists: each definition is built once, and a list selects those of its caller.

A list's format follows its URL, then profile, settings and entry point (``NameStyles``). An agent
costs its visibility mask, and its list while cached.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from hashlib import blake2b
from itertools import compress
from operator import is_
from typing import Generic, NamedTuple, Self

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import (
    ComponentSpec,
    JsonObject,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
    ToolNameStyle,
    ToolSpec,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import (
    MAX_NAME_CHARS,
    SERVER_NAMES,
    ListOptions,
    SchemaStyle,
)
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.policy.visibility import Permissions
from mcp_tools_proxy.registry.component_table import ComponentTable, ItemT
from mcp_tools_proxy.registry.list_cache import ListCache, etag_of
from mcp_tools_proxy.wire.encoding import EncodedList
from mcp_tools_proxy.wire.json_schema.plain_schema import with_plain_schemas
from mcp_tools_proxy.wire.uris import is_url

MAX_CACHED_LISTS = 32
"""Cached lists of one kind, because clients request lists repeatedly. For tools, the number
applies to each name style in use."""

MAX_ENCODED_LISTS = 4
"""Lists of one kind kept as JSON, 0.7 MB each for 1,000 tools; up to four times (per era, and in
ASCII for event streams). For tools, the number applies to each name style."""

MAX_SHAPES = 8
"""Shapes of tool lists that are kept, because clients choose ``name_max``."""


class ListShape(NamedTuple):
    """The format of one list of tools; equal shapes give equal lists."""

    style: ToolNameStyle
    is_plain: bool = False
    """Whether schemas are reduced to common keywords."""
    name_max: int = MAX_NAME_CHARS
    shows_given: bool = False
    """Whether the preset's names are shown instead of aliases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameStyles:
    """List options of profiles, by agent, and of the settings."""

    by_agent: Mapping[str, ListOptions] = field(default_factory=dict)
    default: ListOptions = SERVER_NAMES

    def over_mcp(self, options: ListOptions, agent: str | None) -> ListShape:
        """Return the shape of a list over MCP."""
        profile = self.by_agent.get(agent or "", SERVER_NAMES)
        chosen = options.name_style or profile.name_style or self.default.name_style
        style = chosen or options.entry_style
        is_alias = style is ToolNameStyle.ALIAS
        name_max = options.name_max or profile.name_max or self.default.name_max
        return ListShape(
            style=style,
            is_plain=(options.schemas or profile.schemas) is SchemaStyle.PLAIN,
            name_max=(name_max or MAX_NAME_CHARS) if is_alias else MAX_NAME_CHARS,
            shows_given=is_alias and chosen is None,
        )

    def over_http(self, requested: ToolNameStyle | None, agent: str | None) -> ToolNameStyle:
        """Return the style of a list of the HTTP API, which settings never change."""
        profile = self.by_agent.get(agent or "", SERVER_NAMES)
        return requested or profile.name_style or ToolNameStyle.SERVER


SERVER_STYLE = NameStyles()
"""The default: the style of the entry point."""


NameFor = Callable[[ItemT, Permissions], str]
"""Returns a name that resolves to exactly this item for a caller.

Callers with equal masks must get equal names, because they share a cached list.
"""

MaskFor = Callable[[Permissions], bytes]
"""Returns a byte for each item of a table: 0 for an invisible item."""


@dataclass(frozen=True, slots=True)
class McpList:
    """One list for one caller. Its definitions are shared with other lists: never change one.

    ``etag`` depends only on the definitions and their order, and so survives a restart.
    """

    definitions: EncodedList
    older_era: EncodedList
    """Without non-object output schemas, because older eras reject the whole list for one."""
    etag: str


@dataclass(slots=True)
class _CachedList:
    """All visible definitions for one mask and, once requested, the list for MCP clients."""

    definitions: Sequence[JsonObject]
    mcp: McpList | None = None
    """Without invalid URIs: some clients reject a whole list for one of them."""


class McpLists(Generic[ItemT]):
    """The lists of one kind of component; ``key`` is MCP's identifying field."""

    def __init__(
        self,
        table: ComponentTable[ItemT],
        *,
        key: str,
        name_for: NameFor[ItemT],
        mask_for: MaskFor | None = None,
        specs: Sequence[ComponentSpec] | None = None,
    ) -> None:
        """Build the lists.

        ``mask_for`` replaces the visibility mask if names depend on more. ``specs``, in the table's
        order, replace the items' own.
        """
        self._table = table
        self._specs = [item.spec for item in table.items] if specs is None else specs
        self._key = key
        self._name_for = name_for
        self._mask_for = table.visibility_mask if mask_for is None else mask_for
        self._definitions: dict[tuple[int, str], JsonObject] = {}
        """By the item's index in the table, and its listed name."""
        self._digests: dict[int, bytes] = {}
        """By ``id()`` of the definition; safe because ``_definitions`` keeps all of them alive."""
        self._lists = ListCache[_CachedList](MAX_CACHED_LISTS)
        self._encoded = ListCache[bytes](MAX_ENCODED_LISTS)

    def names_for(self, permissions: Permissions) -> Iterable[str]:
        """Return the names of the caller's items, in the list's order."""
        return (self._name_for(item, permissions) for item in self._table.visible_to(permissions))

    def definitions_for(self, permissions: Permissions) -> Sequence[JsonObject]:
        """List the definitions for a caller with these permissions."""
        return self._cached(permissions).definitions

    async def list_for(self, permissions: Permissions) -> McpList:
        """List the definitions for the caller that all MCP clients accept, with an entity tag."""
        cached = self._cached(permissions)
        if cached.mcp is None:
            listed = cached.definitions
            if self._key == "uri":
                listed = tuple(it for it in listed if is_url(it.get("uri")))
            cached.mcp = self._mcp_list(listed, await self._etag_of(listed))
        return cached.mcp

    def _mcp_list(self, definitions: Sequence[JsonObject], etag: str) -> McpList:
        keep, key = self._encoded.get, etag.encode()
        listed = EncodedList.of(definitions, key, keep)
        older = tuple(map(_without_non_object_output, definitions))
        is_same = all(map(is_, older, definitions))
        older_era = listed if is_same else EncodedList.of(older, key + b"older", keep)
        return McpList(listed, older_era, etag)

    def _cached(self, permissions: Permissions) -> _CachedList:
        mask = self._mask_for(permissions)
        return self._lists.get(mask, lambda: self._build(mask, permissions))

    def _build(self, mask: bytes, permissions: Permissions) -> _CachedList:
        indexes = compress(range(len(mask)), mask)
        return _CachedList(tuple(map(self._define, indexes, self.names_for(permissions))))

    def _define(self, index: int, name: str) -> JsonObject:
        definition = self._definitions.get((index, name))
        if definition is None:
            descriptor = self._specs[index].as_mcp
            key = self._key if self._key in descriptor else "name"  # a resource without URI (P-12)
            definition = descriptor if descriptor[key] == name else {**descriptor, key: name}
            self._definitions[index, name] = definition
        return definition

    async def _etag_of(self, definitions: Sequence[JsonObject]) -> str:
        """Return the entity tag of a list.

        New definitions are digested in a thread, because servers determine the size of schemas.
        """
        missing = [it for it in definitions if id(it) not in self._digests]
        if missing:
            digests = await asyncio.to_thread(lambda: [_digest(to_json(it)) for it in missing])
            self._digests.update(zip(map(id, missing), digests, strict=True))
        return etag_of(b"".join(self._digests[id(it)] for it in definitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class McpListings:
    """The lists of one registry's prompts, resources and templates."""

    prompts: McpLists[Prompt]
    resources: McpLists[Resource]
    templates: McpLists[ResourceTemplate]

    @classmethod
    def of(
        cls,
        prompts: ComponentTable[Prompt],
        resources: ComponentTable[Resource],
        templates: ComponentTable[ResourceTemplate],
    ) -> Self:
        """Build the lists.

        Items are listed by their bare name if that resolves to them, otherwise with the server.
        """
        return cls(
            prompts=McpLists(prompts, key="name", name_for=_shortest_unique_name(prompts)),
            resources=McpLists(resources, key="uri", name_for=_shortest_unique_name(resources)),
            templates=McpLists(
                templates, key="uriTemplate", name_for=_shortest_unique_name(templates)
            ),
        )


class McpToolLists:
    """The lists of tools by shape; ``specs`` replace the tools' own, see McpLists."""

    def __init__(
        self, table: ComponentTable[Tool], specs: Sequence[ToolSpec] | None = None
    ) -> None:
        self._table = table
        self._specs = specs
        self._plain_specs: Sequence[ToolSpec] | None = None
        self._lists: dict[ListShape, McpLists[Tool]] = {}

    async def lists_in(self, shape: ListShape) -> McpLists[Tool]:
        """Return the lists in a shape; the plain schemas of all tools are built once."""
        lists = self._lists.get(shape)
        if lists is not None:
            return lists
        specs = await self._plain() if shape.is_plain else self._specs
        if len(self._lists) >= MAX_SHAPES:
            del self._lists[next(iter(self._lists))]
        lists = self._lists[shape] = _tools_in(self._table, shape, specs)
        return lists

    async def _plain(self) -> Sequence[ToolSpec]:
        """Return the tools with plain schemas, built in a thread because schemas can be large."""
        if self._plain_specs is None:
            specs = self._specs or [tool.spec for tool in self._table.items]
            self._plain_specs = await asyncio.to_thread(lambda: [*map(with_plain_schemas, specs)])
        return self._plain_specs


def _tools_in(
    table: ComponentTable[Tool], shape: ListShape, specs: Sequence[ToolSpec] | None
) -> McpLists[Tool]:
    """Return the lists of tools in a shape.

    In the style BARE, a tool without a unique bare name in the caller's view is ``server:tool``.
    """

    def bare(tool: Tool, permissions: Permissions) -> str:
        spec = tool.spec
        is_found = spec.given_name is None and table.is_found_bare(tool, permissions)
        return spec.bare_name if is_found else spec.listed_name

    def alias(tool: Tool, _: Permissions) -> str:
        spec = tool.spec
        given = spec.given_name if shape.shows_given else None
        if given is not None and len(given) <= shape.name_max:
            return given
        if len(spec.alias) <= shape.name_max or not table.has_short_aliases(tool):
            return spec.alias
        return alias_of(spec.server_id or "", spec.bare_name, shape.name_max)

    match shape.style:
        case ToolNameStyle.SERVER:
            return McpLists(
                table, key="name", name_for=lambda tool, _: tool.spec.listed_name, specs=specs
            )
        case ToolNameStyle.ALIAS:
            return McpLists(table, key="name", name_for=alias, specs=specs)
        case ToolNameStyle.BARE:
            return McpLists(
                table, key="name", name_for=bare, mask_for=table.naming_mask, specs=specs
            )


def _shortest_unique_name(table: ComponentTable[ItemT]) -> NameFor[ItemT]:
    """Return a function that finds the shortest name that resolves to an item for the caller."""

    def name_for(item: ItemT, permissions: Permissions) -> str:
        spec = item.spec
        if spec.given_name is not None:
            return spec.given_name
        if table.is_found_bare(item, permissions):
            return spec.bare_name
        return qualified_name(spec.server_id or "", spec.bare_name)

    return name_for


def _without_non_object_output(definition: JsonObject) -> JsonObject:
    """Remove a non-object output schema, because older eras reject the whole list for one."""
    schema = definition.get("outputSchema")
    if schema is None or (isinstance(schema, Mapping) and schema.get("type") == "object"):
        return definition
    return {key: value for key, value in definition.items() if key != "outputSchema"}


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
