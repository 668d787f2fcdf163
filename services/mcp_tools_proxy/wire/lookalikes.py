"""Lookalike letters, and comparison of names and words that contain them."""

import re
import unicodedata
from collections import defaultdict
from functools import lru_cache

from mcp_tools_proxy.wire.text import HIDDEN, normalize

_SHAPES = str.maketrans(
    "аегһіјӏорԛѕԝхусԁԍвαικνορτυχγıɑɡ01|",
    "aerhijlopqswxycdgbaikvoptuxyiagoll",
)
"""Cyrillic, Greek and other letters and digits, mapped to the Latin letter of the same shape."""

_MORE_SHAPES = (
    ("вгкмнптьѡѵүғ", "brkmhntbwvyf"),  # Cyrillic
    ("βεζηημμνπστσυω", "bezhnmunnctoyw"),  # Greek; the capitals of some look like another letter
    ("օսոհզցյ", "ounhqgj"),  # Armenian
    ("ᎪᏴᏟᎠᎬᏀᎻᎥᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃ", "abcdeghijklmprstvwz"),  # Cherokee
    ("ⲁⲃⲉⲏⲓⲕⲙⲛⲟⲣⲥⲧⲩⲭⲍ", "abehikmnopctyxz"),  # Coptic
)
"""More letters, and the Latin letter that they or their capitals look like (UTS 39).

They count only in words of mixed scripts.
"""

_JOINTS = re.compile(r"[\s:_./-]+")


def folded(name: str) -> str:
    """Return ``name`` without differences in case, width and hidden characters."""
    if name.isascii() and name.isprintable():  # nearly all names: a third of the time
        return name.lower()
    return normalize("NFKC", HIDDEN.sub("", name)).casefold()


def skeleton(name: str) -> str:
    """Return a text that is equal for names whose letters look alike."""
    return folded(name).translate(_SHAPES)


def joined_skeleton(name: str) -> str:
    """Return the skeleton of a name of several words, with uniform separators."""
    return _JOINTS.sub("_", skeleton(name))


@lru_cache(maxsize=1024)
def letters_like(letter: str) -> str:
    """Return all letters that look like a letter, itself first."""
    shapes = {letter} | {latin for latin, others in _LOOKALIKES.items() if letter in others}
    return letter + "".join(
        sorted({it for shape in shapes for it in (shape, *_LOOKALIKES.get(shape, ()))} - {letter})
    )


def mixes_scripts(word: str) -> bool:
    """Return whether a word has letters of several scripts."""
    return len({_script(letter) for letter in word if letter.isalpha()}) > 1


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _lookalikes() -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for letter, latin in _SHAPES.items():
        found[chr(latin)].add(chr(letter))
    for letters, shapes in _MORE_SHAPES:
        for one, shape in zip(letters, shapes, strict=True):
            found[shape].add(one)
    return {it: frozenset(filter(str.isalpha, letters)) for it, letters in found.items()}


_LOOKALIKES = _lookalikes()
