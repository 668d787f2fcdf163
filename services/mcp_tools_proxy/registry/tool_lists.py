"""Lists of tools in the formats of model APIs, joined from JSON that is serialized once.

A tool is serialized in a format on the first request. Agents only need memory for visibility masks
and entity tags.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import mul
from typing import NamedTuple, Self

from pydantic_core import from_json, to_json

from mcp_tools_proxy.documents.tools.list_available_tools import ToolWarning
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject, Tool, ToolNameStyle, ToolSpec
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.policy.visibility import (
    NO_OFFERS,
    NamedItem,
    Offers,
    Permissions,
    Why,
    decide,
)
from mcp_tools_proxy.registry.component_table import NAMED_BARE, NAMED_IN_FULL, ComponentTable
from mcp_tools_proxy.registry.list_cache import ListCache, etag_of
from mcp_tools_proxy.wire.json_schema.tool_formats import (
    ToolFormat,
    definition_of,
    list_warnings,
)
from mcp_tools_proxy.wire.problem_texts import first_of, join_first
from mcp_tools_proxy.wire.text import quote

NEEDS_TASK = (
    'it can only be run as a task (its execution.taskSupport is "required"), which this gateway '
    "does not support, so it is not listed"
)

NAMES_PER_TURN = 100
"""Names looked up per turn of the event loop."""

MAX_UNMATCHED_REPORTED = 100
"""Unmatched names with an individual warning."""

_NAMINGS = bytes((NAMED_IN_FULL, NAMED_BARE))
_IN_FULL = bytes.maketrans(_NAMINGS, b"\1\0")
_BARE = bytes.maketrans(_NAMINGS, b"\0\1")


class SerializedTools:
    """The tools of one registry in one format, each serialized on the first request."""

    def __init__(
        self,
        specs: Sequence[ToolSpec],
        tool_format: ToolFormat,
        names: Sequence[str] | None = None,
    ) -> None:
        """Create the tools; ``names`` replace the format's own names."""
        self.specs = specs
        self.format = tool_format
        self._names = names
        self.json = [b""] * len(specs)
        """The tools as JSON, in the registry's order; empty if not serialized yet."""
        self.warnings: dict[int, bytes] = {}
        """Format warnings of tools, by index: JSON objects joined by commas."""
        self.etags: dict[bytes, str] = {}
        """The entity tags of whole lists, by visibility mask."""
        self.bodies = ListCache[bytes](1)
        """The body of the last whole list, because its client will probably request it again."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the tools, in the registry's order."""
        if self._names is not None:
            return self._names
        if self.format is ToolFormat.MCP:
            return [spec.listed_name for spec in self.specs]
        if self.format is ToolFormat.GEMINI:
            return [spec.gemini_name for spec in self.specs]
        return [spec.model_name for spec in self.specs]

    async def serialize(self, mask: bytes) -> None:
        """Serialize the tools in ``mask`` that are not serialized yet.

        Runs in a thread, because servers determine the size of schemas.
        """
        missing = [i for i in compress(range(len(mask)), mask) if not self.json[i]]
        if not missing:
            return
        new = await asyncio.to_thread(lambda: [self._serialize_tool(index) for index in missing])
        for index, (json, warnings) in zip(missing, new, strict=True):
            self.json[index] = json
            if warnings:
                self.warnings[index] = warnings

    def _serialize_tool(self, index: int) -> tuple[bytes, bytes]:
        """Serialize a tool, and the warnings of its format as JSON objects joined by commas."""
        spec = self.specs[index]
        tool = definition_of(spec, self.format)
        warnings = [ToolWarning(tool=spec.listed_name, message=it) for it in tool.warnings]
        definition = tool.definition
        if self._names is not None:
            definition = {**definition, "name": self._names[index]}
        return to_json(definition), _serialize_warnings(warnings)


@dataclass(frozen=True)
class ToolList:
    """Some tools in one format, in the registry's order: those of ``serialized`` in ``mask``.

    ``more_warnings`` are about names without a match and tools that can only run as tasks; None for
    a whole list without any, whose entity tag is cached. ``not_configured`` tools lack only their
    settings.
    """

    serialized: SerializedTools
    mask: bytes
    more_warnings: Sequence[ToolWarning] | None = None
    not_configured: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.mask) - self.mask.count(0)

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The registry's descriptions of the tools."""
        return list(compress(self.serialized.specs, self.mask))

    @property
    def names(self) -> Sequence[str]:
        """The listed names of the tools."""
        return list(compress(self.serialized.names, self.mask))

    @property
    def sizes(self) -> Sequence[int]:
        """The bytes of each tool as JSON."""
        return list(map(len, compress(self.serialized.json, self.mask)))

    @property
    def definitions(self) -> Sequence[JsonObject]:
        """The tools in the list's format."""
        return [from_json(json) for json in compress(self.serialized.json, self.mask)]

    @property
    def warnings(self) -> Sequence[ToolWarning]:
        """The format warnings of tools and list, and ``more_warnings``."""
        warnings: list[ToolWarning] = from_json(b"[%b]" % self._warnings)
        return warnings

    @property
    def etag(self) -> str:
        """The entity tag of ``body``: equal for equal bytes, also after a restart."""
        if self.more_warnings is not None:
            return etag_of(self.body)
        known = self.serialized.etags.get(self.mask)
        if known is None:
            self.serialized.etags[self.mask] = known = etag_of(self.body)
        return known

    @cached_property
    def body(self) -> bytes:
        """The response body of ``GET /internal/mcp/tools``."""
        if self.more_warnings is not None:
            return self._join()
        return self.serialized.bodies.get(self.mask, self._join)

    def _join(self) -> bytes:
        joined_warnings = self._warnings
        warnings = b',"warnings":[%b]' % joined_warnings if joined_warnings else b""
        begin = b'{"tools":['
        end = b'],"format":%b%b}' % (to_json(self.serialized.format), warnings)
        tools = list(compress(self.serialized.json, self.mask))
        if not tools:
            return begin + end
        tools[0] = begin + tools[0]
        tools[-1] += end
        return b",".join(tools)

    @property
    def _warnings(self) -> bytes:
        messages = list_warnings(self.serialized.format, self.mask.count(1))
        of_list = [ToolWarning(message=message) for message in messages]
        of_tools = [json for i, json in sorted(self.serialized.warnings.items()) if self.mask[i]]
        first = _serialize_warnings([*of_list, *(self.more_warnings or ())])
        return b",".join([first, *of_tools] if first else of_tools)


class ListBody(NamedTuple):
    """The body of a list with its entity tag; ``end`` follows the list's last field."""

    etag: str
    listed: bytes
    end: bytes = b"}"

    @classmethod
    def of(cls, tools: ToolList, more: JsonObject) -> Self:
        """Return the body of a list with more fields, which are not cached."""
        if not more:
            return cls(tools.etag, tools.body)
        end = b"," + to_json(more)[1:]
        return cls(etag_of(tools.etag.encode() + end), tools.body, end)

    def join(self) -> bytes:
        """Return the body with at most one copy: 5,000 tools can be 50 MB."""
        if len(self.end) == 1:
            return self.listed
        return b"".join((memoryview(self.listed)[:-1], self.end))


_NOT_USABLE = (
    Why.SERVER_UNREACHABLE,
    Why.SERVER_FAILED,
    Why.SERVER_INVALID,
    Why.LOGIN_REQUIRED,
    Why.NOT_LISTED,
)
"""Reasons for SERVER_UNAVAILABLE in calls of tools that the preset names."""

MAX_TOOLS_NAMED = 5


@dataclass(frozen=True, slots=True)
class _UnavailableServer:
    """A server that was never discovered, and its tools that a caller may use."""

    server_id: str
    text: str
    tools: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """All names of the tools."""
        full = (qualified_name(self.server_id, tool) for tool in self.tools)
        return frozenset((*full, *(alias_of(self.server_id, it) for it in self.tools), *self.tools))


class ToolLists:
    """The lists of one registry's tools, in all formats."""

    def __init__(
        self,
        table: ComponentTable[Tool],
        offers: Offers = NO_OFFERS,
        specs: Sequence[ToolSpec] | None = None,
    ) -> None:
        """Create the lists; ``specs``, in the order of the table, replace the tools' own."""
        self._table = table
        self._specs = [tool.spec for tool in table.items] if specs is None else specs
        for_models = bytes(spec.is_for_models for spec in self._specs)
        self._for_models = None if all(for_models) else for_models
        self._offers = offers
        self._serialized = {it: SerializedTools(self._specs, it) for it in ToolFormat}
        self._named: dict[ToolNameStyle, SerializedTools] = {}
        """MCP's format in the requested styles; SERVER is the format's own."""

    async def list_for(
        self,
        permissions: Permissions,
        tool_format: ToolFormat,
        names: Sequence[str] | None = None,
        style: ToolNameStyle = ToolNameStyle.SERVER,
    ) -> ToolList:
        """List the caller's tools; ``names`` limits the list to the tools that they resolve to.

        Names are those that ``execute`` accepts. A value that is not a tool's name can be a
        comma-separated list. ``style`` applies to names in MCP's format.
        """
        is_bare = tool_format is ToolFormat.MCP and style is ToolNameStyle.BARE
        serialized = self._serialized_as(tool_format, style)
        need_task = self._only_tasks(permissions)
        unavailable = self._unavailable(permissions)
        not_configured = [tool.spec.name for tool in self._table.unlisted_for(permissions)]
        if names is None:
            mask = self._shown_in(tool_format, self._table.visibility_mask(permissions))
            if is_bare:
                mask = _both_ways(self._table.naming_mask(permissions))
            if mask not in serialized.etags:
                await serialized.serialize(mask)
            warnings = [*map(_needs_task, need_task), *map(_unavailable_warning, unavailable)]
            return ToolList(serialized, mask, warnings or None, not_configured)
        mask, unmatched = await self._select(names, permissions)
        mask = self._shown_in(tool_format, mask)
        if is_bare:
            naming = self._table.naming_mask(permissions)
            mask = _both_ways(bytes(map(mul, mask, naming)))
        await serialized.serialize(mask)
        requested = [
            it for it, its_names in need_task.items() if not its_names.isdisjoint(unmatched)
        ]
        known = frozenset().union(*(need_task[tool] for tool in requested))
        away = {name: it for name in unmatched for it in unavailable if name in it.names}
        unknown = {
            name: count
            for name, count in unmatched.items()
            if name not in known and name not in away and name not in not_configured
        }
        warnings = [
            *map(_needs_task, requested),
            *(ToolWarning(tool=name, message=it.text) for name, it in away.items()),
            *(_needs_setup(name) for name in not_configured if name in unmatched),
            *_unmatched_warnings(unknown),
        ]
        return ToolList(serialized, mask, warnings, not_configured)

    def _shown_in(self, tool_format: ToolFormat, mask: bytes) -> bytes:
        """Return the mask; for a model API without the tools that are not for models."""
        if tool_format is ToolFormat.MCP or self._for_models is None:
            return mask
        return bytes(map(mul, mask, self._for_models))

    def _unavailable(self, permissions: Permissions) -> Sequence["_UnavailableServer"]:
        """Return the preset's servers without a callable tool, except during the first attempt.

        Calls wait for servers in their first connection attempt.
        """
        without_tools = self._offers.without_tools
        if not without_tools:
            return ()
        offers = self._offers.now()
        found = {it: offers.server_reason(it) for it in sorted(without_tools)}
        tools: dict[str, list[str]] = {
            server_id: [] for server_id, reason in found.items() if reason.why in _NOT_USABLE
        }
        for server_id, tool in offers.scope.tools:
            if server_id in tools and offers.may_show(permissions, Kind.TOOL, server_id, tool):
                tools[server_id].append(tool)
        return [
            _UnavailableServer(server_id, found[server_id].text, tuple(sorted(names)))
            for server_id, names in tools.items()
            if names
        ]

    def _only_tasks(self, permissions: Permissions) -> Mapping[str, frozenset[str]]:
        """Return all names of each visible task-only tool, by qualified name."""
        return {
            qualified_name(server_id, name): frozenset(
                {qualified_name(server_id, name), alias_of(server_id, name), name}
            )
            for server_id, name in self._offers.need_task
            if decide(permissions, NamedItem(Kind.TOOL, server_id, name)) is None
        }

    def _serialized_as(self, tool_format: ToolFormat, style: ToolNameStyle) -> SerializedTools:
        if tool_format is not ToolFormat.MCP or style is ToolNameStyle.SERVER:
            return self._serialized[tool_format]
        if style not in self._named:
            build = _named_both_ways if style is ToolNameStyle.BARE else _named_by_alias
            self._named[style] = build(self._specs)
        return self._named[style]

    async def _select(
        self, names: Sequence[str], permissions: Permissions
    ) -> tuple[bytes, Mapping[str, int]]:
        """Return the mask of the tools that ``names`` resolve to, and the unmatched names.

        Each unmatched name has the number of its matches: 0 or several.
        """
        chosen: set[int] = set()
        unmatched: dict[str, int] = {}
        for number, name in enumerate(self._split(names, permissions), start=1):
            found = self._table.find(name, permissions)
            if len(found) == 1 and found[0].spec.is_configured:
                chosen.add(id(found[0]))
            else:
                unmatched[name] = len(self._table.candidates(name, permissions))
            if number % NAMES_PER_TURN == 0:
                await asyncio.sleep(0)
        return bytes(id(tool) in chosen for tool in self._table.items), unmatched

    def _split(self, names: Sequence[str], permissions: Permissions) -> Iterator[str]:
        for value in names:
            if "," in value and not self._table.find(value, permissions):
                yield from filter(None, map(str.strip, value.split(",")))
            elif value:
                yield value


def _named_by_alias(specs: Sequence[ToolSpec]) -> SerializedTools:
    return SerializedTools(specs, ToolFormat.MCP, [spec.alias for spec in specs])


def _named_both_ways(specs: Sequence[ToolSpec]) -> SerializedTools:
    """Return each tool twice: with its full and its bare name. A list has one of the two."""
    names = [
        name for spec in specs for name in (spec.listed_name, spec.given_name or spec.bare_name)
    ]
    return SerializedTools([spec for spec in specs for _ in range(2)], ToolFormat.MCP, names)


def _both_ways(naming_mask: bytes) -> bytes:
    """Convert a naming mask to the mask of a list with each tool twice."""
    mask = bytearray(2 * len(naming_mask))
    mask[0::2] = naming_mask.translate(_IN_FULL)
    mask[1::2] = naming_mask.translate(_BARE)
    return bytes(mask)


def _serialize_warnings(warnings: Iterable[ToolWarning]) -> bytes:
    return b",".join(map(to_json, warnings))


def _unavailable_warning(server: _UnavailableServer) -> ToolWarning:
    tools = join_first(
        server.tools, quote, limit=MAX_TOOLS_NAMED, separator=", ", more=" and {} more"
    )
    return ToolWarning(message=f"{server.text}; its tools cannot be called now: {tools}")


def _needs_task(tool: str) -> ToolWarning:
    return ToolWarning(tool=tool, message=NEEDS_TASK)


def _needs_setup(tool: str) -> ToolWarning:
    return ToolWarning(tool=tool, message="it is not configured here, so every call of it fails")


def _unmatched_warnings(unmatched: Mapping[str, int]) -> Sequence[ToolWarning]:
    """Build the warnings for names with no match or several; the values are the numbers."""
    return first_of(
        tuple(unmatched.items()),
        MAX_UNMATCHED_REPORTED,
        lambda item: _unmatched_warning(*item),
        lambda count: ToolWarning(message=f"{count} more names match no tool that you may run"),
    )


def _unmatched_warning(name: str, count: int) -> ToolWarning:
    if count:
        servers = f"{count} servers have a tool named {quote(name)}"
        return ToolWarning(tool=name, message=f"{servers}; name one as server_id:tool")
    unknown = f"no tool that you may run is named {quote(name)}"
    return ToolWarning(tool=name, message=f"{unknown}; leave names out to list all tools")
