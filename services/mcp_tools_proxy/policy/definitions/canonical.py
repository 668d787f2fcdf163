"""The canonical form of definitions: the same text for the same meaning."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.definitions import LOCK_VERSION, DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers import Snapshot, View

_SHOWN = ("title", "description", "annotations", "icons", "_meta")

_FIELDS: Mapping[DefinitionKind, tuple[str, ...]] = {
    DefinitionKind.TOOL: ("name", *_SHOWN, "inputSchema", "outputSchema", "execution"),
    DefinitionKind.PROMPT: ("name", *_SHOWN, "arguments"),
    DefinitionKind.RESOURCE: ("name", *_SHOWN, "uri", "mimeType"),
    DefinitionKind.RESOURCE_TEMPLATE: ("name", *_SHOWN, "uriTemplate", "mimeType"),
    DefinitionKind.INSTRUCTIONS: ("instructions",),
}
_ITEM_KINDS = (
    DefinitionKind.TOOL,
    DefinitionKind.PROMPT,
    DefinitionKind.RESOURCE,
    DefinitionKind.RESOURCE_TEMPLATE,
)

_SINCE_VERSION_2 = ("icons", "_meta", "execution")


def definition_of(
    kind: DefinitionKind, descriptor: JsonObject, version: int = LOCK_VERSION
) -> JsonObject:
    """Return the part of an item's descriptor that a lock entry of this version pins."""
    left_out = uncovered_fields(version)
    return {
        key: descriptor[key] for key in _FIELDS[kind] if key in descriptor and key not in left_out
    }


def uncovered_fields(version: int) -> tuple[str, ...]:
    """Return the fields that a lock entry of this version does not cover."""
    return _SINCE_VERSION_2 if version < LOCK_VERSION else ()


def only_pinned(snapshots: Mapping[str, Snapshot]) -> Mapping[str, Snapshot]:
    """Return the offers with only the pinned fields of each item.

    Unchanged parts are the same objects.
    """
    reduced = {server_id: _only_pinned(snapshot) for server_id, snapshot in snapshots.items()}
    is_same = all(reduced[server_id] is it for server_id, it in snapshots.items())
    return snapshots if is_same else reduced


def _only_pinned(snapshot: Snapshot) -> Snapshot:
    before = snapshot.tools, snapshot.prompts, snapshot.resources, snapshot.templates
    tools, prompts, resources, templates = after = tuple(
        map(_reduced, _ITEM_KINDS, before),
    )
    if all(new is old for new, old in zip(after, before, strict=True)):
        return snapshot
    return replace(snapshot, tools=tools, prompts=prompts, resources=resources, templates=templates)


def _reduced(kind: DefinitionKind, items: Mapping[str, JsonObject]) -> Mapping[str, JsonObject]:
    pinned = frozenset(_FIELDS[kind])
    if all(item.keys() <= pinned for item in items.values()):
        return items
    return {
        name: item if item.keys() <= pinned else definition_of(kind, item)
        for name, item in items.items()
    }


def canonical_json(value: object) -> str:
    """Return a JSON value in the form of RFC 8785: sorted keys, no spaces, ``1.0`` as ``1``.

    Fractions have Python's form; RFC 8785 differs for very small ones.
    """
    return json.dumps(_ordered(value), ensure_ascii=False, separators=(",", ":"))


def digest_of(canonical: str) -> str:
    """Return the SHA-256 of a canonical text, in hexadecimal."""
    return hashlib.sha256(canonical.encode(errors="surrogatepass")).hexdigest()


def shown_items(view: View) -> Iterator[tuple[DefinitionKey, JsonObject]]:
    """Yield the descriptors of all items of a view, including shadowed ones."""
    for route in view.tools.values():
        yield DefinitionKey(route.server_id, DefinitionKind.TOOL, route.name), route.descriptor
    for kind, routed in (
        (DefinitionKind.PROMPT, view.prompts),
        (DefinitionKind.RESOURCE, view.resources),
        (DefinitionKind.RESOURCE_TEMPLATE, view.templates),
    ):
        for routes in routed.values():
            for route in routes:
                yield DefinitionKey(route.server_id, kind, route.name), route.descriptor


def descriptor_of(snapshot: Snapshot, key: DefinitionKey) -> JsonObject | None:
    """Return an item's descriptor in a server's snapshot; None if not offered."""
    match key.kind:
        case DefinitionKind.TOOL:
            return snapshot.tools.get(key.name)
        case DefinitionKind.PROMPT:
            return snapshot.prompts.get(key.name)
        case DefinitionKind.RESOURCE:
            return snapshot.resources.get(key.name)
        case DefinitionKind.RESOURCE_TEMPLATE:
            return snapshot.templates.get(key.name)
        case DefinitionKind.INSTRUCTIONS:
            text = None if key.name else snapshot.instructions
            return None if text is None else _of_instructions(text)


@lru_cache(maxsize=256)
def _of_instructions(text: str) -> JsonObject:
    """Return the same descriptor for the same text, because readers cache by identity."""
    return {"instructions": text}


def _ordered(value: object) -> object:
    """Return the value with sorted keys, and whole numbers as integers."""
    if isinstance(value, Mapping):
        return {key: _ordered(value[key]) for key in sorted(value, key=_utf16)}
    if isinstance(value, list | tuple):
        return [_ordered(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _utf16(key: str) -> bytes:
    """Return RFC 8785's sort key: UTF-16 code units."""
    return key.encode("utf-16-be", "surrogatepass")
