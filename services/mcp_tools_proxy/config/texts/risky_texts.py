"""Finds arguments and variables by which a caller's id could name a folder of another caller."""

import re
from collections.abc import Iterator

from mcp_tools_proxy.config.json_file import Location
from mcp_tools_proxy.config.server_entry import ServerEntry
from mcp_tools_proxy.config.texts.caller_rules import Fault, is_path
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.domain.server import Transport

_NAMES_A_PATH = re.compile(
    r"dir|folder|path|root|home|file|base|data|store|work|cwd", re.IGNORECASE
)

_AS_IT_IS = (
    "is the caller's id unchanged, which can be ../another or an absolute path; if the server "
    "uses it as a path, put a folder in front, as in /srv/data/${caller.tenant_id}"
)
_TWO_IN_ONE = (
    "has two parts of the caller in one segment of a path, so tenant a with user bc has the folder "
    "of tenant ab with user c; put a / between them"
)


def risky_texts(entry: ServerEntry) -> Iterator[Fault]:
    """Yield the arguments and variables of a stdio server that are a risk, and why."""
    if entry.effective_transport is not Transport.STDIO:
        return
    before: str | CallerTemplate = ""
    for index, text in enumerate(entry.args):
        if isinstance(text, CallerTemplate):
            yield from _risks(("args", index), text, names_path=_is_for_a_path(before))
        before = text
    for name, text in entry.env.items():
        if isinstance(text, CallerTemplate):
            yield from _risks(("env", name), text, names_path=bool(_NAMES_A_PATH.search(name)))


def _is_for_a_path(before: str | CallerTemplate) -> bool:
    """Return whether the argument behind ``before`` may be a path.

    One without an option in front most often is a file or a folder.
    """
    if isinstance(before, str) and before.startswith("-"):
        return bool(_NAMES_A_PATH.search(before))
    return True


def _risks(place: Location, text: CallerTemplate, *, names_path: bool) -> Iterator[Fault]:
    if names_path and text.is_alone and isinstance(text.parts[0], CallerPart):
        yield place, _AS_IT_IS
    elif not is_path(text) and any(isinstance(it, str) and "/" in it for it in text.parts):
        yield place, _TWO_IN_ONE
