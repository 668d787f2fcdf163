"""The place of the rule that decided about a call."""

from mcp_tools_proxy.domain.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RuleSource:
    """Where a rule stands: ``file`` is a configuration file's name, and ``path`` a JSON path in it.

    For a rule of the settings ``file`` is ``settings`` and ``path`` the variable.
    """

    file: str
    path: str

    @property
    def as_json(self) -> dict[str, str]:
        """The place as audit records and explanations show it."""
        return {"file": self.file, "path": self.path}


DOCUMENT = "document"
"""``RuleSource.file`` of a rule that a document has; the record's ``doc_id`` names it."""

SETTINGS = "settings"
"""``RuleSource.file`` of a rule that a setting makes."""
