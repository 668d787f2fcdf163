"""Guards: what is looked for in the texts of definitions, arguments and results, and what follows.

Text of a server or a document is read by a model, which may take it for an instruction. A guard is
off unless the server's entry, or a preset, turns it on.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.fast_dataclass import dataclass


class GuardName(StrEnum):
    """A guard, named as in configuration files."""

    HIDDEN_CHARACTERS = "hiddenCharacters"
    HIDDEN_HTML = "hiddenHtml"
    IMAGES = "images"
    LINKS = "links"
    SECRETS = "secrets"
    INSTRUCTIONS = "instructions"


class GuardAction(StrEnum):
    """Action on a finding, in order of strictness."""

    OFF = "off"
    FLAG = "flag"
    REDACT = "redact"
    REFUSE = "refuse"

    @property
    def strictness(self) -> int:
        """The place in the order: of two actions the greater one wins."""
        return _STRICTNESS[self]


_STRICTNESS: Mapping[GuardAction, int] = {it: place for place, it in enumerate(GuardAction)}

GuardActions = Mapping[GuardName, GuardAction]
"""The guards that one entry or preset turns on; those that are off are left out."""


class GuardPlace(StrEnum):
    """Place of a finding."""

    DEFINITION = "definition"
    ARGUMENTS = "arguments"
    RESULT = "result"


class GuardRule(NamedTuple):
    """What follows from findings of one guard, and the line of configuration that says so."""

    action: GuardAction
    source: RuleSource


GuardRules = Mapping[GuardName, GuardRule]
"""The guards that are on for one server, or for document tools."""


def strictest(rules: Iterable[GuardRules]) -> GuardRules:
    """Join rules: for each guard the strictest one, and of equals the first."""
    found: dict[GuardName, GuardRule] = {}
    for one in rules:
        for name, rule in one.items():
            known = found.get(name)
            if known is None or known.action.strictness < rule.action.strictness:
                found[name] = rule
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFinding:
    """How often a guard found one kind of text; never the text itself."""

    guard: GuardName
    kind: str
    place: GuardPlace
    action: GuardAction
    count: int

    @property
    def as_json(self) -> dict[str, object]:
        """The finding as records, results and errors show it."""
        return {
            "guard": self.guard.value,
            "kind": self.kind,
            "in": self.place.value,
            "action": self.action.value,
            "count": self.count,
        }
