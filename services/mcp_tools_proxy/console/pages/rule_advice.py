"""What an operator changes so that a rule hides a tool no longer."""

import re
from collections.abc import Mapping, Sequence

_ADVICE: Sequence[tuple[str, str]] = (
    (r"preset_.* \$\.\w+", "Name it there, or activate another preset."),
    (r"mcp\.json \$\.defaultPresetId", "No preset is active: choose one in “Who sees what”."),
    (r"agents\.json .*\.client_ids", "Add its server to that list of the agent’s profile."),
    (r"agents\.json .*\.exclude_components", "Take that entry out of the agent’s profile."),
    (r"agents\.json .*\.bind", "Bind an argument that the tool has, or take the entry out."),
    (r"mcp\.json .*\.exclude", "Take that entry out of the server’s exclude: it is for everybody."),
    (r"mcp\.json .*\.bind", "Bind an argument that the tool has, or take the entry out."),
    (r"definitions\.lock\.json ", "Read under “Servers” what has changed, and accept it."),
    (r"document \$\.readers", "Add the user or one of its roles to the document’s readers."),
    (r"settings ", "Set it, or name a tenant in the request."),
)
"""By the beginning of a rule's file and place."""


def what_to_change(rule: Mapping[str, str]) -> str:
    """Return what to do about a rule, "" for one that only its place says."""
    place = f"{rule['file']} {rule['path']}"
    return next((advice for pattern, advice in _ADVICE if re.match(pattern, place)), "")
