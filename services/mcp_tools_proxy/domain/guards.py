"""Guards: checks of definitions, arguments and results for harmful text, and their actions.

A model can mistake text of a server or document for instructions. Guards are off unless the
server's entry or a preset enables them.
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
        """The position in the order; of two actions the stricter one wins."""
        return _STRICTNESS[self]


_STRICTNESS: Mapping[GuardAction, int] = {it: place for place, it in enumerate(GuardAction)}

GuardActions = Mapping[GuardName, GuardAction]
"""The active guards of one entry or preset, without those that are off."""


class GuardPlace(StrEnum):
    """Place of a finding."""

    DEFINITION = "definition"
    ARGUMENTS = "arguments"
    RESULT = "result"


class GuardRule(NamedTuple):
    """The action on findings of one guard, and the location of its configuration."""

    action: GuardAction
    source: RuleSource


GuardRules = Mapping[GuardName, GuardRule]
"""The active guards of one server, or of document tools."""


def strictest(rules: Iterable[GuardRules]) -> GuardRules:
    """Return the strictest rule for each guard; the first one of equally strict rules."""
    found: dict[GuardName, GuardRule] = {}
    for one in rules:
        for name, rule in one.items():
            known = found.get(name)
            if known is None or known.action.strictness < rule.action.strictness:
                found[name] = rule
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFinding:
    """The number of findings of one guard and kind; never the text itself."""

    guard: GuardName
    kind: str
    place: GuardPlace
    action: GuardAction
    count: int

    @property
    def as_json(self) -> dict[str, object]:
        """The finding in records, results and errors."""
        return {
            "guard": self.guard.value,
            "kind": self.kind,
            "in": self.place.value,
            "action": self.action.value,
            "count": self.count,
        }
