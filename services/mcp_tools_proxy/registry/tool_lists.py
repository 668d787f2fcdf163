"""Lists of tools as a model takes them: each tool is written once, a list joins what was written.

A tool is made ready in a format when somebody who may see it asks for that format first, and what
was written is shared: agents cost no more memory than their masks and the tags of their lists.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import compress, islice

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.components import JsonObject, Tool, ToolSpec
from mcp_tools_proxy.json_schema.model_api.tool_formats import (
    ToolFormat,
    definition_of,
    list_warnings,
)
from mcp_tools_proxy.registry.hidden_items import NEEDS_TASK, NOTHING_HIDDEN, HiddenItems
from mcp_tools_proxy.registry.table import Table, Viewer
from mcp_tools_proxy.tools.list_available_tools import ToolWarning
from mcp_tools_proxy.wire.text import quote

AT_ONCE = 100
"""How many names are looked up before calls may go on."""

MAX_UNMATCHED_REPORTED = 100
"""How many names that lead to no tool are told one by one."""


class SerializedTools:
    """The tools of one registry in one format, each as JSON once somebody asked for it."""

    def __init__(self, tools: Sequence[Tool], tool_format: ToolFormat) -> None:
        self.tools = tools
        self.format = tool_format
        self.json = [b""] * len(tools)
        """The tools, in the registry's order; empty where one is not written yet."""
        self.warnings: dict[int, bytes] = {}
        """What some had to give up for the format, as JSON objects parted by commas."""
        self.etags: dict[bytes, str] = {}
        """The tags of whole lists, by the masks that agents share."""
        self.latest: tuple[bytes, bytes] | None = None
        """Mask and body of the whole list given last: who asked is likely to ask again."""

    async def write(self, mask: bytes) -> None:
        """Write what ``mask`` selects and is not written yet.

        In a thread, since one tool may take long: a server says how large its schemas are.
        """
        missing = [i for i in compress(range(len(mask)), mask) if not self.json[i]]
        if not missing:
            return
        specs = [self.tools[index].spec for index in missing]
        made = await asyncio.to_thread(lambda: [_write_one(spec, self.format) for spec in specs])
        for index, (json, warnings) in zip(missing, made, strict=True):
            self.json[index] = json
            if warnings:
                self.warnings[index] = warnings


@dataclass(frozen=True)
class ToolList:
    """Some tools in one format, in the registry's order: those of ``written`` in ``mask``.

    ``more_warnings`` tell of names that were asked for and lead to no tool, and of tools that can
    only be run in a way that is not ours.
    """

    written: SerializedTools
    mask: bytes
    more_warnings: Sequence[ToolWarning] | None = None

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The tools as the registry describes them."""
        return [tool.spec for tool in compress(self.written.tools, self.mask)]

    @property
    def definitions(self) -> Sequence[JsonObject]:
        """The tools in the list's format."""
        return [from_json(json) for json in compress(self.written.json, self.mask)]

    @property
    def warnings(self) -> Sequence[ToolWarning]:
        """What this format cannot say of them, what is wrong with the list, and more."""
        warnings: list[ToolWarning] = from_json(b"[%b]" % self._warnings)
        return warnings

    @property
    def etag(self) -> str:
        """The tag of ``body``: the same for the same bytes, also after a restart."""
        if self.more_warnings is not None:
            return etag_of(self.body)
        known = self.written.etags.get(self.mask)
        if known is None:
            self.written.etags[self.mask] = known = etag_of(self.body)
        return known

    @cached_property
    def body(self) -> bytes:
        """The answer of ``GET /internal/mcp/tools``."""
        if self.more_warnings is not None:
            return self._joined()
        latest = self.written.latest
        if latest is None or latest[0] is not self.mask:
            self.written.latest = latest = (self.mask, self._joined())
        return latest[1]

    def _joined(self) -> bytes:
        """Join the list in one go: copying is what it costs."""
        told = self._warnings
        warnings = b',"warnings":[%b]' % told if told else b""
        begin, end = b'{"tools":[', b'],"format":%b%b}' % (to_json(self.written.format), warnings)
        tools = list(compress(self.written.json, self.mask))
        if not tools:
            return begin + end
        tools[0] = begin + tools[0]
        tools[-1] += end
        return b",".join(tools)

    @property
    def _warnings(self) -> bytes:
        of_list = list_warnings(self.written.format, self.mask.count(1))
        whole = [ToolWarning(message=message) for message in of_list]
        of_tools = [told for i, told in sorted(self.written.warnings.items()) if self.mask[i]]
        of_asked = _written([*whole, *(self.more_warnings or ())])
        return b",".join([of_asked, *of_tools] if of_asked else of_tools)


class ToolLists:
    """The lists of one registry's tools, for whoever asks."""

    def __init__(self, table: Table[Tool], hidden_items: HiddenItems = NOTHING_HIDDEN) -> None:
        self._table = table
        self._hidden_items = hidden_items
        self._written = {shape: SerializedTools(table.items, shape) for shape in ToolFormat}

    async def list_for(
        self, viewer: Viewer, tool_format: ToolFormat, names: Sequence[str] | None = None
    ) -> ToolList:
        """Give what ``viewer`` may run, with ``names`` only what goes by one of them.

        A name is what ``execute`` takes; a value that is none may hold several parted by commas.
        """
        written = self._written[tool_format]
        need_task = self._hidden_items.warnings(viewer)
        if names is None:
            mask = self._table.visibility_mask(viewer)
            if mask not in written.etags:
                await written.write(mask)
            return ToolList(written, mask, [_needs_task(tool) for tool in need_task] or None)
        mask, vain = await self._named(names, viewer)
        await written.write(mask)
        asked = [tool for tool, spellings in need_task.items() if not spellings.isdisjoint(vain)]
        known = frozenset().union(*(need_task[tool] for tool in asked))
        told = _told({name: count for name, count in vain.items() if name not in known})
        return ToolList(written, mask, [*map(_needs_task, asked), *told])

    async def _named(self, names: Sequence[str], viewer: Viewer) -> tuple[bytes, Mapping[str, int]]:
        """Select what goes by ``names``; return also those that lead to no tool or to several."""
        chosen: set[int] = set()
        vain: dict[str, int] = {}
        for number, name in enumerate(self._each(names, viewer), start=1):
            found = self._table.find(name, viewer)
            if len(found) == 1:
                chosen.add(id(found[0]))
            else:
                vain[name] = len(found)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return bytes(id(tool) in chosen for tool in self._table.items), vain

    def _each(self, names: Sequence[str], viewer: Viewer) -> Iterator[str]:
        for value in names:
            if "," in value and not self._table.find(value, viewer):
                yield from filter(None, map(str.strip, value.split(",")))
            elif value:
                yield value


def _write_one(spec: ToolSpec, tool_format: ToolFormat) -> tuple[bytes, bytes]:
    """Write a tool, and what it had to give up for the format: JSON objects parted by commas."""
    definition = definition_of(spec, tool_format)
    warnings = [ToolWarning(tool=spec.name, message=message) for message in definition.warnings]
    return to_json(definition.shown), _written(warnings)


def etag_of(body: bytes) -> str:
    """Give a strong entity tag, which follows from the bytes alone (RFC 9110 §8.8.3)."""
    return f'"{blake2b(body, digest_size=16).hexdigest()}"'


def _written(warnings: Iterable[ToolWarning]) -> bytes:
    """Write warnings as JSON objects parted by commas."""
    return b",".join(map(to_json, warnings))


def _needs_task(tool: str) -> ToolWarning:
    return ToolWarning(tool=tool, message=NEEDS_TASK)


def _told(vain: Mapping[str, int]) -> Sequence[ToolWarning]:
    """Tell of names that lead to no tool, or to as many as ``vain`` says."""
    told = [_warning(name, count) for name, count in islice(vain.items(), MAX_UNMATCHED_REPORTED)]
    if (left_out := len(vain) - len(told)) > 0:
        told.append(ToolWarning(message=f"{left_out} more names lead to no tool that you may run"))
    return told


def _warning(name: str, count: int) -> ToolWarning:
    if count:
        servers = f"{count} servers have a tool named {quote(name)}"
        return ToolWarning(tool=name, message=f"{servers}; name one as server_id:tool")
    unknown = f"no tool that you may run is named {quote(name)}"
    return ToolWarning(tool=name, message=f"{unknown}; leave names out to see which there are")
