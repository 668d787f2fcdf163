"""Variables in values of mcp.json: ``${NAME}``, ``${NAME:-default}``, ``$${`` for a plain ``${``.

A replaced value is not scanned again, so a secret may contain ``${``. No error message here quotes
a value.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import accumulate

PLAIN_PIECES = r"[^$\u0000]|\$(?!\$?\{)|\$\$\{|\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^{}\u0000]*)?\}"
"""One plain character, escape or variable, as alternatives of a pattern."""

PATTERN = f"^(?:{PLAIN_PIECES})*$"
"""A well-formed value as a pattern of JSON Schema: plain characters, escapes and variables."""

_ESCAPE_OR_VARIABLE = re.compile(
    r"(?P<escape>\$\$\{)"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^{}]*)?\}"
    r"|(?P<malformed>\$\{)"
)
_LIKE_A_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
_PLAIN_BRACES = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WITHOUT_BRACES = re.compile(r"(?<!\$)\$([A-Za-z_][A-Za-z0-9_]*)")


class BadVariable(ValueError):
    """A value whose variables cannot be replaced; the message names the variable and the remedy."""


def check_variables(text: str) -> None:
    """Raise BadVariable if a ``${`` begins neither a variable nor an escape."""
    for found in _ESCAPE_OR_VARIABLE.finditer(text):
        if found["malformed"]:
            raise BadVariable(
                f"the ${{ at character {found.start() + 1} begins no variable: write ${{NAME}}, "
                "${NAME:-default without braces}, or $${ for a plain ${"
            )


def unset_variables(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that ``text`` needs and the environment lacks, each once, in order.

    An empty variable counts as set. A variable with a default is never needed.
    """
    names = (
        found["name"]
        for found in _ESCAPE_OR_VARIABLE.finditer(text)
        if found["name"] and found["default"] is None and found["name"] not in environment
    )
    return tuple(dict.fromkeys(names))


def fill_in(text: str, environment: Mapping[str, str]) -> str:
    """Replace the variables of ``text``, once.

    As in a shell, a default replaces a variable that is unset or empty. Raises BadVariable for a
    malformed ``${``, and for unset variables, naming all of them.
    """
    check_variables(text)
    if unset := unset_variables(text, environment):
        raise BadVariable(not_set(unset))

    return "".join(piece for piece, _ in _pieces(text, environment))


def values_in(text: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts that replace variables of ``text``; none for one that is not set."""
    return (piece for piece, replaces in _pieces(text, environment) if replaces and piece)


def shown_url(text: str, environment: Mapping[str, str]) -> str:
    """Return a URL for operators: no credentials, no query, and ``…`` for what variables replace
    in its path, as that may be a token.
    """
    pieces = list(_pieces(text, environment))
    url = "".join(piece for piece, _ in pieces)
    ends = accumulate(len(piece) for piece, _ in pieces)
    replaced = [
        range(end - len(piece), end)
        for end, (piece, replaces) in zip(ends, pieces, strict=True)
        if replaces
    ]
    scheme, separator, rest = url.partition("://")
    before_path = _AUTHORITY.match(rest)
    authority = before_path[0] if before_path else ""
    path = re.split(r"[?#]", rest[len(authority) :], maxsplit=1)[0]
    start = len(scheme + separator + authority)
    shown = []
    for segment in path.split("/"):
        span = range(start, start + len(segment))
        shown.append("…" if segment and any(_overlap(span, it) for it in replaced) else segment)
        start = span.stop + 1
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{'/'.join(shown)}"


_AUTHORITY = re.compile(r"[^/?#]*")


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _pieces(text: str, environment: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, and whether each replaces a variable."""
    start = 0
    for found in _ESCAPE_OR_VARIABLE.finditer(text):
        yield text[start : found.start()], False
        start = found.end()
        if found["name"] is None:
            yield ("${" if found["escape"] else found[0]), False
        else:
            value = environment.get(found["name"], "")
            yield value or (found["default"] or ":-").removeprefix(":-"), True
    yield text[start:], False


def not_set(names: tuple[str, ...]) -> str:
    """Return the message for variables that are not set, with what to do."""
    shown = ", ".join(names)
    return (
        f"needs {shown} from the gateway's environment; set it and restart the gateway, or write "
        f"${{{names[0]}:-default}}"
    )


def plain_braces(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that ``text`` has as ``{NAME}``, which are not replaced.

    These are names of the environment, and names in capitals. ``{NAME}`` is the second variable
    syntax of broxy. We do not support it, since it would make a template of every value with
    braces, such as JSON; users of broxy get a warning instead.
    """
    names = (
        name
        for name in _PLAIN_BRACES.findall(text)
        if name in environment or _LIKE_A_VARIABLE.fullmatch(name)
    )
    return tuple(dict.fromkeys(names))


def without_braces(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that ``text`` has as ``$NAME``, which are not replaced."""
    names = (
        name
        for name in _WITHOUT_BRACES.findall(text)
        if name in environment or _LIKE_A_VARIABLE.fullmatch(name)
    )
    return tuple(dict.fromkeys(names))
