"""How text of RTF looks, by its properties and styles, and whether it has a place on the page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_tools_proxy.documents.importers.docx_sections import PageArea
from mcp_tools_proxy.documents.importers.office_styles import SMALLEST_POINTS, inherited

STYLE_SHEET = "skipped stylesheet"

_SMALLEST_TWIPS = 20
"""Lines, rows and shapes of a point or less show nothing."""

UNKNOWN_BACKGROUND = "background-image: url(x)"
"""CSS of a picture behind the text, against which text of any colour is content."""


class Shading(NamedTuple):
    """A background: ``percent`` hundredths of its first colour on its second."""

    percent: int = 0
    pattern: int = 0
    ground: int = 0

    def colour(self, colours: Sequence[str]) -> str:
        """Return the colour, or "" for none. ``colours`` are those of the file."""
        if not (self.percent or self.ground):
            return ""
        pattern, ground = (
            bytes.fromhex((colours[it] if 0 < it < len(colours) else automatic)[1:])
            for it, automatic in ((self.pattern, "#000000"), (self.ground, "#ffffff"))
        )
        share = min(max(self.percent, 0), 10_000)
        mixed = (a * share + b * (10_000 - share) for a, b in zip(pattern, ground, strict=True))
        return "#{:02x}{:02x}{:02x}".format(*(it // 10_000 for it in mixed))


class RtfLook(NamedTuple):
    """What text states of its letters; None is not stated."""

    hidden: bool | None = None
    half_points: int | None = None
    colour: int | None = None
    background: Shading | None = None
    paragraph: Shading | None = None
    """The shading of its paragraph."""

    def css(self, colours: Sequence[str]) -> str:
        """Return the colours as CSS; letters in the automatic colour are seen on any other."""
        if not self.colour or not 0 < self.colour < len(colours):
            return ""
        shadings = (self.background, self.paragraph)
        grounds = (it.colour(colours) for it in shadings if it is not None)
        names = {
            "color": colours[self.colour],
            "background-color": next(filter(None, grounds), ""),
        }
        return ";".join(f"{name}:{it}" for name, it in names.items() if it)


StyleKey = tuple[str, int]
"""``s`` or ``cs``, and the number of a paragraph's or a character style."""


class RtfStyles:
    """The styles of a file. Only their hidden text counts, because text repeats the rest."""

    def __init__(self) -> None:
        self._styles: dict[StyleKey, tuple[bool | None, StyleKey]] = {}
        self._merged: dict[StyleKey, bool | None] = {}

    def add(self, key: StyleKey, look: RtfLook, base: int) -> None:
        """Store a style that is based on another one of its kind."""
        self._styles[key] = look.hidden, (key[0], base)

    def hide(self, state: "RtfState") -> bool:
        """Return whether text is hidden, or too small to see."""
        look = state.look
        if look.half_points is not None and look.half_points <= 2 * SMALLEST_POINTS:
            return True
        styles = (("cs", state.character_style), ("s", state.paragraph_style))
        stated = (look.hidden, *(self._is_hidden(it) for it in styles))
        return next((it for it in stated if it is not None), False)

    def _is_hidden(self, key: StyleKey) -> bool | None:
        """Return whether a style or its base hides text; None if neither states it."""
        return inherited(
            key,
            self._merged,
            None,
            self._styles.get,
            lambda base, own: base if own is None else own,
        )


class RtfPlace(NamedTuple):
    """The place of a shape or frame in twips, and from where it counts."""

    left: int | None = None
    top: int | None = None
    right: int | None = None
    bottom: int | None = None
    width: int | None = None
    """Of a frame."""
    across: str = "column"
    down: str = "text"

    def is_unseen(self, page: PageArea) -> bool:
        """Return whether it is off the page, or has no width."""
        width, height = self.width or None, None
        if self.left is not None and self.right is not None:
            width = self.right - self.left
            if width <= _SMALLEST_TWIPS:
                return True
        if self.top is not None and self.bottom is not None:
            height = self.bottom - self.top
        return (
            self.left is not None and page.is_off(self.left, width, self.across, is_vertical=False)
        ) or (self.top is not None and page.is_off(self.top, height, self.down, is_vertical=True))


class RtfState(NamedTuple):
    """The properties of text; a group restores them at its end."""

    target: str = "text"
    font: int = -1
    fallback: int = 1
    look: RtfLook = RtfLook()
    paragraph_style: int = 0
    character_style: int = 0
    script: str = ""
    frame: RtfPlace = RtfPlace()
    line_height: int = 0
    nesting: int = 1
    """The number of tables around a paragraph in a table."""
    shape: RtfPlace = RtfPlace()
    is_shape_hidden: bool = False
    style: StyleKey | None = None
    """The style that is being defined."""
    base: int = 0
    """The number of the style on which it is based."""

    def at_paragraph_start(self) -> "RtfState":
        """Return the state without the properties of paragraphs."""
        return self._replace(
            look=self.look._replace(paragraph=None),
            paragraph_style=0,
            frame=RtfPlace(),
            line_height=0,
            nesting=1,
        )

    def is_unseen(self, page: PageArea) -> bool:
        """Return whether the lines of a paragraph have no height, or its frame is off the page."""
        return is_flat(self.line_height) or self.frame.is_unseen(page)


def is_flat(height: int) -> bool:
    """Return whether a row or line is too low; a negative height is exact."""
    return -_SMALLEST_TWIPS <= height < 0


_Change = Callable[[RtfState, int], RtfState]


def _in_look(name: str, value: Callable[[int], object]) -> _Change:
    return lambda state, number: state._replace(
        look=state.look._replace(**{name: value(number)})  # type: ignore[arg-type]
    )


def _in_shading(whose: str, name: str) -> _Change:
    def change(state: RtfState, number: int) -> RtfState:
        before: Shading | None = getattr(state.look, whose)
        shading = (before or Shading())._replace(**{name: number})
        changed: dict[str, Any] = {whose: shading}
        return state._replace(look=state.look._replace(**changed))

    return change


def _in_frame(name: str, value: str | None = None) -> _Change:
    return lambda state, number: state._replace(
        frame=state.frame._replace(**{name: number if value is None else value})  # type: ignore[arg-type]
    )


def _in_shape(name: str, value: str | None = None) -> _Change:
    return lambda state, number: state._replace(
        shape=state.shape._replace(**{name: number if value is None else value})  # type: ignore[arg-type]
    )


def _script(name: str) -> _Change:
    return lambda state, number: state._replace(script=name if number else "")


LOOK_WORDS: Mapping[str, _Change] = {
    "plain": lambda state, _: state._replace(
        look=RtfLook(paragraph=state.look.paragraph), character_style=0, script=""
    ),
    "v": _in_look("hidden", bool),
    "fs": _in_look("half_points", int),
    "cf": _in_look("colour", int),
    "cb": _in_look("background", lambda number: Shading(ground=number)),
    "highlight": _in_look("background", lambda number: Shading(ground=number)),
    "shading": _in_shading("paragraph", "percent"),
    "cfpat": _in_shading("paragraph", "pattern"),
    "cbpat": _in_shading("paragraph", "ground"),
    "chshdng": _in_shading("background", "percent"),
    "chcfpat": _in_shading("background", "pattern"),
    "chcbpat": _in_shading("background", "ground"),
    "super": _script("sup"),
    "sub": _script("sub"),
    "up": _script("sup"),
    "dn": _script("sub"),
    "nosupersub": _script(""),
    "sl": lambda state, number: state._replace(line_height=number),
    "itap": lambda state, number: state._replace(nesting=number),
    "posx": _in_frame("left"),
    "posnegx": _in_frame("left"),
    "posy": _in_frame("top"),
    "posnegy": _in_frame("top"),
    "absw": _in_frame("width"),
    "phpg": _in_frame("across", "page"),
    "pvpg": _in_frame("down", "page"),
    "shpleft": _in_shape("left"),
    "shptop": _in_shape("top"),
    "shpright": _in_shape("right"),
    "shpbottom": _in_shape("bottom"),
    "shpbxpage": _in_shape("across", "page"),
    "shpbypage": _in_shape("down", "page"),
}
"""What words change; each function takes the number of a word."""
