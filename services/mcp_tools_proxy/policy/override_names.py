"""Checks the names that a preset gives to items: each must mean one item, to the eye as well.

All of it follows from the preset's file, so that a preset is refused before any server is reached.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Preset, Reference
from mcp_tools_proxy.domain.offers.overrides import NO_OVERRIDES
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.policy.document_tools import DOCUMENT_TOOLS
from mcp_tools_proxy.wire.lookalikes import joined_skeleton

_Pair = tuple[str, str]

LOCAL_TOOLS = frozenset({"list_available_tools", *DOCUMENT_TOOLS})
"""The names of the gateway's own tools."""

ALIAS_JOINT = "__"
"""Stands between server and tool in aliases: a name with it looks like a server's tool."""


class OverrideProblem(NamedTuple):
    """Why the overrides of one reference of a preset cannot be."""

    kind: Kind
    place: int
    """The place of the reference among those of its kind."""
    field: str | None
    """The field of the overrides; None for all of them."""
    message: str


def find_override_problems(preset: Preset) -> Iterator[OverrideProblem]:
    """Yield a problem for each name that could be taken for another item's, and for each item
    that is overridden in two ways."""
    for kind, references in preset.references:
        if all(it.overrides == NO_OVERRIDES for it in references):
            continue  # most presets: no name is compared, of 1,000 tools 3,000
        owners = _owners(kind, references)
        first: dict[_Pair, Reference] = {}
        for index, reference in enumerate(references):
            if not reference.enabled:
                continue
            pair = (reference.server_id, reference.name)
            if first.setdefault(pair, reference).overrides != reference.overrides:
                message = "are not those of an earlier reference to the same item; keep one of them"
                yield OverrideProblem(kind, index, None, message)
            elif (clash := _clash(pair, reference.overrides.name, owners)) is not None:
                yield OverrideProblem(kind, index, "name", clash)


def _owners(kind: Kind, references: Sequence[Reference]) -> Mapping[str, Sequence[_Pair | None]]:
    """Return whose names look alike, by what they look like; None for the gateway's own tools."""
    owners: dict[str, list[_Pair | None]] = {}
    for name in LOCAL_TOOLS if kind is Kind.TOOL else ():
        owners.setdefault(joined_skeleton(name), []).append(None)
    for it in references:
        if it.enabled:
            for name in filter(None, _names_of(kind, it)):
                owners.setdefault(joined_skeleton(name), []).append((it.server_id, it.name))
    return owners


def _names_of(kind: Kind, reference: Reference) -> Iterator[str | None]:
    server_id, name = reference.server_id, reference.name
    yield name
    yield qualified_name(server_id, name)
    yield reference.overrides.name
    if kind is Kind.TOOL:
        yield alias_of(server_id, name)


def _clash(
    pair: _Pair, name: str | None, owners: Mapping[str, Sequence[_Pair | None]]
) -> str | None:
    """Return why an item cannot have a name; None if it can, or gets none."""
    if name is None:
        return None
    if ALIAS_JOINT in name:
        return f"has {ALIAS_JOINT}, which stands between server and tool in aliases; leave it out"
    other = next((it for it in owners[joined_skeleton(name)] if it != pair), pair)
    if other == pair:
        return None
    owner = "a tool of the gateway" if other is None else f"{other[0]}:{other[1]}"
    return f"is also a name of {owner}, or looks like one; choose another"
