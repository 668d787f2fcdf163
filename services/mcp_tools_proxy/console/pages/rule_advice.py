"""What an operator changes so that a rule hides a tool no longer."""

import re
from collections.abc import Mapping, Sequence

_ADVICE: Sequence[tuple[str, str]] = (
    (r"preset_.* \$\.\w+", "Add the tool to this preset, or activate another preset."),
    (r"mcp\.json \$\.defaultPresetId", "No preset is active. Activate one under “Access”."),
    (r"agents\.json .*\.client_ids", "Add the tool’s server to this list in the agent’s profile."),
    (r"agents\.json .*\.exclude_components", "Remove this entry from the agent’s profile."),
    (r"agents\.json .*\.bind", "Bind an argument that the tool has, or remove the entry."),
    (r"mcp\.json .*\.exclude", "Remove this entry. “exclude” of a server applies to all callers."),
    (r"mcp\.json .*\.bind", "Bind an argument that the tool has, or remove the entry."),
    (r"definitions\.lock\.json ", "Review and accept the changed definition under “Servers”."),
    (r"document \$\.readers", "Add the user or one of their roles to the document’s readers."),
    (r"settings ", "Set it, or specify a tenant in the request."),
)
"""By the beginning of a rule's file and place."""


def what_to_change(rule: Mapping[str, str]) -> str:
    """Return what to do about a rule, "" for one that only its place says."""
    place = f"{rule['file']} {rule['path']}"
    return next((advice for pattern, advice in _ADVICE if re.match(pattern, place)), "")
