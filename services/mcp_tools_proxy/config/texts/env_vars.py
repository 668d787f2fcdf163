"""Variables in values of mcp.json: ``${NAME}``, ``${NAME:-default}``, ``$${`` for a plain ``${``.

A replaced value is not scanned again, so a secret may contain ``${``. No error message here quotes
a value.
"""

import re
from collections.abc import Mapping

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

    def replacement(found: re.Match[str]) -> str:
        if found["escape"]:
            return "${"
        value = environment.get(found["name"], "")
        return value or (found["default"] or ":-").removeprefix(":-")

    return _ESCAPE_OR_VARIABLE.sub(replacement, text)


def not_set(names: tuple[str, ...]) -> str:
    """Return the message for variables that are not set, with what to do."""
    shown = ", ".join(names)
    return f"needs {shown} from the environment; set it, or write ${{{names[0]}:-default}}"


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
