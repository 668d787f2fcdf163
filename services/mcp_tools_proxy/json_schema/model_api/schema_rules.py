"""The rules of model APIs for input schemas, beyond JSON Schema; learned from their refusals."""

import re
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache

from mcp_tools_proxy.json_schema.model_api.argument_names import STRICTEST

PATTERNS = 4_096
"""Size of the cache of compiled patterns; many tools share a few."""

_LOOKAROUND = re.compile(r"\(\?<?[=!]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRules:
    """The rules of one API.

    Every API requires a top level of type "object" and refuses the whole request for one invalid
    schema. ``refused_at_top``: keywords allowed in inner schemas only. ``needs_properties``: the
    top level must have ``properties``, even if empty. ``needs_items``: ``items`` is required where
    arrays are allowed. ``argument_name``: pattern for names of properties; others are
    shown by their alias. ``reads_patterns``: the API compiles patterns, by Python's rules and
    without lookaround.
    """

    refused_at_top: frozenset[str]
    needs_properties: bool = False
    needs_items: bool = False
    argument_name: re.Pattern[str] | None = None
    reads_patterns: bool = False

    def accepts_pattern(self, pattern: object) -> bool:
        """Return whether the API accepts this regular expression."""
        return not self.reads_patterns or (isinstance(pattern, str) and _compiles(pattern))

    def accepts_argument_name(self, name: str) -> bool:
        """Return whether the API accepts this name of an argument."""
        return self.argument_name is None or self.argument_name.fullmatch(name) is not None


_ARGUMENT_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

OPENAI = SchemaRules(
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf", "enum", "const", "not"}),
    needs_properties=True,
    needs_items=True,
    argument_name=_ARGUMENT_NAME,
    reads_patterns=True,
)

ANTHROPIC = SchemaRules(
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf"}),
    argument_name=_ARGUMENT_NAME,
)

PLAIN = SchemaRules(
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf", "enum", "const", "not"}),
    needs_properties=True,
    needs_items=True,
    argument_name=_ARGUMENT_NAME,
)
"""Of no API: MCP clients with weak schema support; see ``plain_schema``."""

PLAIN_RESULT = replace(PLAIN, argument_name=None)
"""For output schemas: results keep the names of their server."""

GEMINI = replace(PLAIN, argument_name=STRICTEST)
"""See ``gemini_schema``, which narrows what these rules leave."""


@lru_cache(maxsize=PATTERNS)
def _compiles(pattern: str) -> bool:
    if _LOOKAROUND.search(pattern):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # FutureWarning: constructs that may change their meaning
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError):
            return False
    return True
