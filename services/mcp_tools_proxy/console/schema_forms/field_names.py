"""The names of form fields: a letter for what is typed, and the place of the value, encoded.

So no name of a schema collides with another field of the page, or is read as anything but a name.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import StrEnum

from pydantic_core import from_json, to_json

from mcp_tools_proxy.console.schema_forms.drafts import Path

MAX_NAME_CHARS = 100
MAX_PATH_CHARS = 320
"""The longest name of a property, and the longest key, that a form has; a page has many."""

MAX_ROW = 1_000
_NAME = re.compile(r"([A-Za-z])\.([A-Za-z0-9_-]*)")


class Letter(StrEnum):
    """What a field holds; in capitals what is sent also while it is empty."""

    TEXT = "s"
    INTEGER = "i"
    NUMBER = "n"
    CHOICE = "e"
    """One of several values, as JSON."""
    JSON = "j"
    OTHERS = "x"
    """A JSON object: the members of an object that have no field."""
    OBJECT = "o"
    SENT_OBJECT = "O"
    ARRAY = "a"
    SENT_ARRAY = "A"
    NULL = "z"
    """A box that is ticked to send null."""
    BRANCH = "c"
    """The number of an alternative."""


_LETTERS = frozenset(it.value for it in Letter)


def key_of(path: Path) -> str:
    """Return a path in letters, digits, ``-`` and ``_``."""
    return urlsafe_b64encode(to_json(path)).decode().rstrip("=") if path else ""


def path_of(key: str) -> Path | None:
    """Return the path of a key; None if it is not one."""
    if not key:
        return ()
    try:
        path = from_json(urlsafe_b64decode(key + "=" * (-len(key) % 4)))
    except ValueError:
        return None
    is_path = isinstance(path, list) and all(map(_is_step, path))
    return tuple(path) if is_path else None


def name_of(letter: Letter, path: Path) -> str:
    """Return the name of a field."""
    return f"{letter}.{key_of(path)}"


def parse_name(name: str) -> tuple[Letter, Path] | None:
    """Return what a field holds and its place; None for a field of another part of the page."""
    found = _NAME.fullmatch(name)
    path = None if found is None else path_of(found[2])
    if found is None or path is None or found[1] not in _LETTERS:
        return None
    return Letter(found[1]), path


def _is_step(step: object) -> bool:
    if isinstance(step, int):
        return not isinstance(step, bool) and 0 <= step < MAX_ROW
    return isinstance(step, str)
