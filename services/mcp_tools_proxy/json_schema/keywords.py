"""Where schemas stand in a JSON Schema, which draft it is in, and what it says in 2020-12."""

import re
from collections.abc import Mapping
from typing import Any

Node = Mapping[str, Any]

DRAFT_2020 = 2020
"""The draft that MCP takes a schema to be in when it names none."""

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
"""Here true and false are what every API reads; elsewhere some read objects only."""

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
IDENTIFICATION_KEYWORDS = frozenset(
    {
        *("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"),
        *("$defs", "definitions"),
    }
)
"""Keywords that say what a schema is called or what stands aside in it; none checks a value."""

INTRODUCED_IN = {
    **dict.fromkeys(("const", "contains", "propertyNames", "examples"), 6),
    **dict.fromkeys(("if", "then", "else"), 7),
    **dict.fromkeys(("minContains", "maxContains", "dependentRequired", "dependentSchemas"), 2019),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "$recursiveRef"), 2019),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), DRAFT_2020),
}
"""The first draft that knows a keyword; in an earlier one it says nothing."""

LAST_DRAFT_REF_OVERRIDES_SIBLINGS = 7
"""Up to this draft nothing beside a ``$ref`` counts."""

_DRAFT = re.compile(r"draft[-/](?:0([467])|(20(?:19-09|20-12)))")


def draft_of(schema: Node) -> int:
    """Give the draft that ``$schema`` names: 4, 6, 7, 2019 or 2020; 2020 when it names none."""
    named = schema.get("$schema")
    found = _DRAFT.search(named) if isinstance(named, str) else None
    if found is None:
        return DRAFT_2020
    return int(found[1] or found[2][:4])


def upgrade_to_2020_12(node: Node, draft: int) -> dict[str, Any]:
    """Say in the keywords of 2020-12 what a node of ``draft`` says; its subschemas stay.

    A reference beside which nothing counts (up to draft 7) stays with its annotations only. Names
    and definitions are left out: who follows a reference finds them in the original.
    """
    if draft <= LAST_DRAFT_REF_OVERRIDES_SIBLINGS and isinstance(node.get("$ref"), str):
        return {key: node[key] for key in node if key == "$ref" or key in ANNOTATIONS}
    left_out = IDENTIFICATION_KEYWORDS | {"id"} if draft <= 4 else IDENTIFICATION_KEYWORDS
    told = {
        key: value
        for key, value in node.items()
        if key not in left_out and INTRODUCED_IN.get(key, 0) <= draft
    }
    for rewrite in (_tell_tuple, _tell_dependencies, _tell_bounds, _tell_references):
        rewrite(told)
    return told


def _tell_tuple(node: dict[str, Any]) -> None:
    """``items`` of a list are ``prefixItems``, and what follows them is ``items``."""
    rest = node.pop("additionalItems", None)
    if not isinstance(node.get("items"), list):
        return
    if first := node.pop("items"):
        node["prefixItems"] = first
    if rest is not None:
        node["items"] = rest


def _tell_dependencies(node: dict[str, Any]) -> None:
    """``dependencies`` are names or schemas; validators heed them in later drafts as well."""
    needed = node.pop("dependencies", None)
    if not isinstance(needed, Mapping):
        return
    names = {key: value for key, value in needed.items() if isinstance(value, list)}
    schemas = {key: value for key, value in needed.items() if not isinstance(value, list)}
    if names:
        told = node.get("dependentRequired", {})
        both = {key: [*told.get(key, ()), *value] for key, value in names.items()}
        node["dependentRequired"] = told | {k: list(dict.fromkeys(v)) for k, v in both.items()}
    if schemas:
        told = node.get("dependentSchemas", {})
        clashing = {key: {"allOf": [told[key], schemas[key]]} for key in schemas if key in told}
        node["dependentSchemas"] = told | schemas | clashing


def _tell_bounds(node: dict[str, Any]) -> None:
    """In draft 4 ``exclusiveMinimum: true`` says how ``minimum`` is meant."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and bound in node:
            node[exclusive] = node.pop(bound)


def _tell_references(node: dict[str, Any]) -> None:
    """Within one document the dynamic references lead where ``$ref`` would."""
    for key in ("$dynamicRef", "$recursiveRef"):
        if key in node:
            reference = {"$ref": node.pop(key)}
            if "$ref" in node:
                node["allOf"] = [*node.get("allOf", ()), reference]
            else:
                node |= reference
