"""The rules of model APIs for input schemas, beyond JSON Schema; learned from their refusals."""

import re
import warnings
from dataclasses import dataclass
from functools import lru_cache

PATTERNS = 4_096
"""Size of the cache of compiled patterns; many tools share a few."""

_LOOKAROUND = re.compile(r"\(\?<?[=!]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRules:
    """The rules of one API.

    Every API requires a top level of type "object" and refuses the whole request for one invalid
    schema. ``refused_at_top``: keywords allowed in inner schemas only. ``needs_properties``: the
    top level must have ``properties``, even if empty. ``needs_items``: ``items`` is required where
    arrays are allowed. ``argument_name``: pattern for names of the top level's properties.
    ``reads_patterns``: the API compiles patterns, by Python's rules and without lookaround.
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


OPENAI = SchemaRules(
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf", "enum", "const", "not"}),
    needs_properties=True,
    needs_items=True,
    reads_patterns=True,
)

ANTHROPIC = SchemaRules(
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf"}),
    argument_name=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
)

PLAIN = SchemaRules(
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf", "enum", "const", "not"}),
    needs_properties=True,
    needs_items=True,
)
"""Of no API: MCP clients with weak schema support; see ``plain_schema``."""


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
