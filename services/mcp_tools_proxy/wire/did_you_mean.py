"""What a name that is unknown was probably meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from mcp_tools_proxy.wire.text import quote

COMPARED_NAMES = 50
COMPARED_CHARS = 64
"""How many known names a wrong one is compared with, and how much of it."""


def nearest(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Give the known name that is spelt most like ``name``, None when none is like it.

    ``least`` is how like it has to be, where 1 is the same.
    Only the first names of many are compared, and none that is long, so that a wrong name costs
    little.
    """
    short = (candidate for candidate in known if len(candidate) <= COMPARED_CHARS)
    close = get_close_matches(
        name[:COMPARED_CHARS], islice(short, COMPARED_NAMES), n=1, cutoff=least
    )
    return close[0] if close else None


def did_you_mean(meant: str | None, otherwise: str = "") -> str:
    """Give the end of a message about a wrong name: what was meant, else ``otherwise``."""
    return f"; did you mean {quote(meant)}?" if meant else otherwise
