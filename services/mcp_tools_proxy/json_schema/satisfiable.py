"""Finds schemas that no arguments satisfy: a tool that has one cannot be called.

It finds what servers really write, a required property that must not be there, and not every
contradiction.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_tools_proxy.json_schema.references import References
from mcp_tools_proxy.wire.text import quote

MAX_DEPTH = 16
"""Levels of schemas that are looked at; a deeper one counts as satisfiable."""

MAX_NODES = 2_000
"""Schemas that are looked at: references to references of fifty each would take for ever."""

_EVERYTHING: Sequence[Any] = (True, {})


def why_nothing_satisfies(schema: Mapping[str, Any]) -> str | None:
    """Return why no object satisfies the schema; None if one may."""
    return _Search(References(schema)).reason(schema, 0)


class _Search:
    """Looks for contradictions in one document."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._left = MAX_NODES

    def reason(self, schema: object, depth: int) -> str | None:
        """Return why no value satisfies a schema; None if one may, or if that is unclear."""
        self._left -= 1
        if self._left < 0:
            return None
        if schema is False:
            return "its schema is false"
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return None
        if "not" in schema and schema["not"] in _EVERYTHING and schema["not"] is not False:
            return 'its schema is {"not": {}}'
        if schema.get("enum") == []:
            return "its enum is empty"
        found = self._references.find(schema.get("$ref"))
        if found is not None and (reason := self.reason(found[1], depth + 1)):
            return reason
        return self._reason_of_parts(schema, depth) or self._reason_of_required(schema, depth)

    def _reason_of_parts(self, schema: Mapping[str, Any], depth: int) -> str | None:
        every = schema.get("allOf")
        for part in every if isinstance(every, list) else ():
            if reason := self.reason(part, depth + 1):
                return reason
        for key in ("anyOf", "oneOf"):
            branches = schema.get(key)
            if isinstance(branches, list) and branches:
                reasons = [self.reason(branch, depth + 1) for branch in branches]
                if all(reasons):
                    return reasons[0]
        return None

    def _reason_of_required(self, schema: Mapping[str, Any], depth: int) -> str | None:
        """Return which required property of an object can have no value."""
        required = schema.get("required")
        if schema.get("type") != "object" or not isinstance(required, list):
            return None
        properties = schema.get("properties")
        declared = properties if isinstance(properties, Mapping) else {}
        is_closed = schema.get("additionalProperties") is False and not schema.get(
            "patternProperties"
        )
        for name in required:
            if name in declared:
                reason = self.reason(declared[name], depth + 1)
            else:
                reason = "additionalProperties is false" if is_closed else None
            if reason is not None:
                return f"no value is valid for the required property {quote(str(name))}: {reason}"
        return None
