"""JSON Schema's keywords: those that hold subschemas, drafts, and the upgrade to 2020-12."""

import re
from collections.abc import Mapping
from typing import Any

Node = Mapping[str, Any]

DRAFT_2020 = 2020
"""MCP's default draft for a schema without ``$schema``."""

TABLES = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
"""Keywords whose value is an object of schemas; its keys are names, never keywords."""

LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLES = frozenset(
    {
        *("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then"),
        *("else", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    }
)
MAY_BE_BOOLEAN = frozenset({"additionalProperties", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords where every model API accepts a boolean schema; elsewhere some accept objects only."""

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
IDENTIFICATION_KEYWORDS = frozenset(
    {
        *("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"),
        *("$defs", "definitions"),
    }
)
"""Keywords that name a schema or hold definitions; none constrains a value."""

INTRODUCED_IN = {
    **dict.fromkeys(("const", "contains", "propertyNames", "examples"), 6),
    **dict.fromkeys(("if", "then", "else"), 7),
    **dict.fromkeys(("minContains", "maxContains", "dependentRequired", "dependentSchemas"), 2019),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "$recursiveRef"), 2019),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), DRAFT_2020),
}
"""The first draft that knows a keyword; earlier drafts ignore it."""

LAST_DRAFT_REF_OVERRIDES_SIBLINGS = 7
"""Up to this draft a ``$ref`` makes validators ignore its sibling keywords."""

_DRAFT = re.compile(r"draft[-/](?:0([467])|(20(?:19-09|20-12)))")


def draft_of(schema: Node) -> int:
    """Return the draft that ``$schema`` names: 4, 6, 7, 2019 or 2020; 2020 when it names none."""
    named = schema.get("$schema")
    found = _DRAFT.search(named) if isinstance(named, str) else None
    if found is None:
        return DRAFT_2020
    return int(found[1] or found[2][:4])


def upgrade_to_2020_12(node: Node, draft: int) -> dict[str, Any]:
    """Rewrite a node of ``draft`` with the keywords of 2020-12; its subschemas stay unchanged.

    A ``$ref`` up to draft 7 keeps its annotations only, because other siblings are ignored there.
    Names and definitions are left out: references are resolved in the original document.
    """
    if draft <= LAST_DRAFT_REF_OVERRIDES_SIBLINGS and isinstance(node.get("$ref"), str):
        return {key: node[key] for key in node if key == "$ref" or key in ANNOTATIONS}
    left_out = IDENTIFICATION_KEYWORDS | {"id"} if draft <= 4 else IDENTIFICATION_KEYWORDS
    upgraded = {
        key: value
        for key, value in node.items()
        if key not in left_out and INTRODUCED_IN.get(key, 0) <= draft
    }
    for rewrite in (_upgrade_tuple, _upgrade_dependencies, _upgrade_bounds, _upgrade_references):
        rewrite(upgraded)
    return upgraded


def _upgrade_tuple(node: dict[str, Any]) -> None:
    """Rename ``items`` with a list to ``prefixItems``, and ``additionalItems`` to ``items``."""
    rest = node.pop("additionalItems", None)
    if not isinstance(node.get("items"), list):
        return
    if first := node.pop("items"):
        node["prefixItems"] = first
    if rest is not None:
        node["items"] = rest


def _upgrade_dependencies(node: dict[str, Any]) -> None:
    """Split ``dependencies`` into ``dependentRequired`` and ``dependentSchemas``.

    Validators apply ``dependencies`` in later drafts as well.
    """
    needed = node.pop("dependencies", None)
    if not isinstance(needed, Mapping):
        return
    names = {key: value for key, value in needed.items() if isinstance(value, list)}
    schemas = {key: value for key, value in needed.items() if not isinstance(value, list)}
    if names:
        present = node.get("dependentRequired", {})
        both = {key: [*present.get(key, ()), *value] for key, value in names.items()}
        node["dependentRequired"] = present | {k: list(dict.fromkeys(v)) for k, v in both.items()}
    if schemas:
        present = node.get("dependentSchemas", {})
        in_both = {
            key: {"allOf": [present[key], schemas[key]]} for key in schemas if key in present
        }
        node["dependentSchemas"] = present | schemas | in_both


def _upgrade_bounds(node: dict[str, Any]) -> None:
    """Replace draft 4's boolean ``exclusiveMinimum``, a modifier of ``minimum``, by a number."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and bound in node:
            node[exclusive] = node.pop(bound)


def _upgrade_references(node: dict[str, Any]) -> None:
    """Replace dynamic references by ``$ref``, which is equivalent within one document."""
    for key in ("$dynamicRef", "$recursiveRef"):
        if key in node:
            reference = {"$ref": node.pop(key)}
            if "$ref" in node:
                node["allOf"] = [*node.get("allOf", ()), reference]
            else:
                node |= reference
