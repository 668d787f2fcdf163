"""Names that a person or a model would take for one another."""

import re

from mcp_tools_proxy.wire.text import normalize
from mcp_tools_proxy.wire.unicode.hidden_characters import HIDDEN

_SHAPES = str.maketrans(
    "аегһіјӏорԛѕԝхусԁԍвαικνορτυχγıɑɡ01|",
    "aerhijlopqswxycdgbaikvoptuxyiagoll",
)
"""Cyrillic, Greek and other letters, and digits, by the Latin letter that they look like."""

_JOINTS = re.compile(r"[\s:_./-]+")


def folded(name: str) -> str:
    """Return ``name`` without what differs in writing only: case, width, hidden characters."""
    if name.isascii() and name.isprintable():  # nearly every name: a third of the time
        return name.lower()
    return normalize("NFKC", HIDDEN.sub("", name)).casefold()


def skeleton(name: str) -> str:
    """Return a text that is equal for names whose letters look alike."""
    return folded(name).translate(_SHAPES)


def joined_skeleton(name: str) -> str:
    """Return the skeleton of a name of several words, however these are joined."""
    return _JOINTS.sub("_", skeleton(name))
