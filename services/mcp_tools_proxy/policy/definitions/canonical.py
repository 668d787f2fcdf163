"""The canonical form of definitions: one text for one meaning, whatever a server sends it like."""

import hashlib
import json
from collections.abc import Iterator, Mapping

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.domain.offers.view import View

_SHOWN = ("title", "description", "annotations")

_FIELDS: Mapping[DefinitionKind, tuple[str, ...]] = {
    DefinitionKind.TOOL: ("name", *_SHOWN, "inputSchema", "outputSchema"),
    DefinitionKind.PROMPT: ("name", *_SHOWN, "arguments"),
    DefinitionKind.RESOURCE: ("name", *_SHOWN, "uri", "mimeType"),
    DefinitionKind.RESOURCE_TEMPLATE: ("name", *_SHOWN, "uriTemplate", "mimeType"),
    DefinitionKind.INSTRUCTIONS: ("instructions",),
}
"""The fields of a descriptor that are pinned."""


def definition_of(kind: DefinitionKind, descriptor: JsonObject) -> JsonObject:
    """Return the part of an item's descriptor that is pinned."""
    return {key: descriptor[key] for key in _FIELDS[kind] if key in descriptor}


def canonical_json(value: object) -> str:
    """Return a JSON value in the form of RFC 8785: sorted keys, no spaces, ``1.0`` as ``1``.

    Fractions are written as Python does: RFC 8785 writes very small ones otherwise.
    """
    return json.dumps(_ordered(value), ensure_ascii=False, separators=(",", ":"))


def digest_of(canonical: str) -> str:
    """Return the SHA-256 of a canonical text, in hexadecimal."""
    return hashlib.sha256(canonical.encode(errors="surrogatepass")).hexdigest()


def shown_items(view: View) -> Iterator[tuple[DefinitionKey, JsonObject]]:
    """Yield the descriptor of every item of a view, also of one that another server's hides."""
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
    """Return the descriptor of an item of a server's snapshot, None if it is not offered."""
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
            return None if text is None else {"instructions": text}


def _ordered(value: object) -> object:
    """Return the value with the keys of its objects in order, and whole numbers as integers."""
    if isinstance(value, Mapping):
        return {key: _ordered(value[key]) for key in sorted(value, key=_utf16)}
    if isinstance(value, list | tuple):
        return [_ordered(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _utf16(key: str) -> bytes:
    """Return the order of keys of RFC 8785: by UTF-16 code units."""
    return key.encode("utf-16-be", "surrogatepass")
