"""Variables in values of mcp.json: ``${NAME}``, ``${NAME:-default}``, ``$${`` for a plain ``${``.

What was filled in is never looked at again, so a secret may hold anything. No message here holds a
value.
"""

import re
from collections.abc import Mapping

PATTERN = r"^(?:[^$\u0000]|\$(?!\$?\{)|\$\$\{|\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^{}\u0000]*)?\})*$"
"""A well-formed value as JSON Schema says it: plain characters, escapes and variables in a row."""

_ESCAPE_OR_VARIABLE = re.compile(
    r"(?P<escape>\$\$\{)"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^{}]*)?\}"
    r"|(?P<malformed>\$\{)"
)
_LIKE_A_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
_PLAIN_BRACES = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")


class BadVariable(ValueError):
    """A value that cannot be filled in; the message says which variable and what to do."""


def check_variables(text: str) -> None:
    """Raise BadVariable where a ``${`` begins nothing that is known."""
    for found in _ESCAPE_OR_VARIABLE.finditer(text):
        if found["malformed"]:
            raise BadVariable(
                f"the ${{ at character {found.start() + 1} begins no variable: write ${{NAME}}, "
                "${NAME:-default without braces}, or $${ for a plain ${"
            )


def unset_variables(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Name the variables that ``text`` needs and the environment has not, each once, in order.

    One that is set and empty counts as set. One with a default is never needed.
    """
    names = (
        found["name"]
        for found in _ESCAPE_OR_VARIABLE.finditer(text)
        if found["name"] and found["default"] is None and found["name"] not in environment
    )
    return tuple(dict.fromkeys(names))


def fill_in(text: str, environment: Mapping[str, str]) -> str:
    """Replace the variables of ``text``, once.

    As in a shell, a default stands in for a variable that is unset or empty. Raises BadVariable for
    a malformed ``${``, and for variables that are not set, naming all of them.
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
    """Say that variables are not set, and what to do."""
    shown = ", ".join(names)
    return f"needs {shown} from the environment; set it, or write ${{{names[0]}:-default}}"


def plain_braces(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Name the variables that ``text`` holds as ``{NAME}``, which stays so.

    They are those of the environment, and what is in capitals as variables are. broxy's second
    spelling: it would make every value with braces, such as JSON, a template.
    """
    names = (
        name
        for name in _PLAIN_BRACES.findall(text)
        if name in environment or _LIKE_A_VARIABLE.fullmatch(name)
    )
    return tuple(dict.fromkeys(names))
