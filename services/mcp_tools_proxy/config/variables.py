"""Variables, parts of the caller and secrets in values of mcp.json.

Environment variables (``${NAME}``, ``${NAME:-default}``, ``$${`` for a literal ``${``) are replaced
when the file is loaded. Replaced values are not scanned again, so a secret can contain ``${``. A
value with ``${caller.…}`` or ``${secret:PATH}`` is a CallerTemplate, filled in for each caller; but
``${secret:-default}`` is a variable. Error messages never quote values.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import accumulate

from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate, SecretPath
from mcp_tools_proxy.wire.text import quote

PLAIN_PIECES = r"[^$\u0000]|\$(?!\$?\{)|\$\$\{|\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^{}\u0000]*)?\}"
"""One plain character, escape or variable, as alternatives of a pattern."""

PATTERN = f"^(?:{PLAIN_PIECES})*$"
"""A well-formed value as a JSON Schema pattern: plain characters, escapes and variables."""

_ESCAPE_OR_VARIABLE = re.compile(
    r"(?P<escape>\$\$\{)"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^{}]*)?\}"
    r"|(?P<malformed>\$\{)"
)
_LIKE_A_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
_PLAIN_BRACES = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WITHOUT_BRACES = re.compile(r"(?<!\$)\$([A-Za-z_][A-Za-z0-9_]*)")


class BadVariable(ValueError):
    """A value's variables cannot be replaced; the message names the variable and the solution."""


def check_variables(text: str) -> None:
    """Raise BadVariable if a ``${`` begins neither a variable nor an escape."""
    for found in _ESCAPE_OR_VARIABLE.finditer(text):
        if found["malformed"]:
            raise BadVariable(
                f"the ${{ at character {found.start() + 1} begins no variable: write ${{NAME}}, "
                "${NAME:-default without braces}, or $${ for a plain ${"
            )


def unset_variables(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that the environment lacks, each once, in order.

    An empty variable counts as set. Variables with a default are never missing.
    """
    names = (
        found["name"]
        for found in _ESCAPE_OR_VARIABLE.finditer(text)
        if found["name"] and found["default"] is None and found["name"] not in environment
    )
    return tuple(dict.fromkeys(names))


def fill_in(text: str, environment: Mapping[str, str]) -> str:
    """Replace the variables of ``text``, once.

    As in a shell, a default replaces an unset or empty variable. Raises BadVariable for a malformed
    ``${``, and for all unset variables.
    """
    check_variables(text)
    if unset := unset_variables(text, environment):
        raise BadVariable(not_set(unset))

    return "".join(piece for piece, _ in _variable_pieces(text, environment))


def values_in(text: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values that replace variables of ``text``, without empty ones."""
    return (piece for piece, replaces in _variable_pieces(text, environment) if replaces and piece)


def shown_url(text: str, environment: Mapping[str, str]) -> str:
    """Return a URL for operators, without credentials and query.

    ``…`` replaces path segments with values of variables, which can be tokens.
    """
    pieces = list(_variable_pieces(text, environment))
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


def _variable_pieces(text: str, environment: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
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
    """Return the message for unset variables, with the solution."""
    shown = ", ".join(names)
    return (
        f"needs {shown} from the gateway's environment; set it and restart the gateway, or write "
        f"${{{names[0]}:-default}}"
    )


def plain_braces(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables in the form ``{NAME}``, which are not replaced.

    These are names of the environment, and names in capitals. broxy supports this syntax; here,
    values with braces, such as JSON, would become templates, so its users get a warning.
    """
    names = (
        name
        for name in _PLAIN_BRACES.findall(text)
        if name in environment or _LIKE_A_VARIABLE.fullmatch(name)
    )
    return tuple(dict.fromkeys(names))


def without_braces(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables in the form ``$NAME``, which are not replaced."""
    names = (
        name
        for name in _WITHOUT_BRACES.findall(text)
        if name in environment or _LIKE_A_VARIABLE.fullmatch(name)
    )
    return tuple(dict.fromkeys(names))


_PART = rf"\$\{{caller\.(?:{'|'.join(part.value for part in CallerPart)})\}}"
_IN_PATH = r"[^${}/\\\u0000-\u001f\u007f]"
_SEGMENT = rf"(?!\.(?:[/}}]|\.))(?:{_IN_PATH}+(?:{_PART}{_IN_PATH}*)?|{_PART}{_IN_PATH}*)"
_SECRET = rf"\$\{{secret:(?!-){_SEGMENT}(?:/{_SEGMENT})*\}}"

BOUND_PATTERN = f"^(?:{PLAIN_PIECES}|{_PART})*$"
"""A well-formed value with parts of the caller, as a JSON Schema pattern."""

CALLER_PATTERN = f"^(?:{PLAIN_PIECES}|{_PART}|{_SECRET})*$"
"""A well-formed value with parts of the caller or secrets, as a JSON Schema pattern."""

_TOKEN = re.compile(
    r"(?P<escape>\$\$\{)"
    r"|\$\{caller\.(?P<part>[^{}]*)\}"
    r"|\$\{secret:(?!-)(?P<path>(?:[^{}]|\$\{caller\.[^{}]*\})*)\}"
)
_PART_IN_PATH = re.compile(r"\$\{caller\.([^{}]*)\}")
_PARTS = ", ".join(f"${{caller.{part.value}}}" for part in CallerPart)


def read_caller_text(
    text: str, environment: Mapping[str, str] | None, *, secrets: bool = True
) -> str | CallerTemplate:
    """Return the template of a text, or a plain text if it contains no part of a caller.

    Without an ``environment``, variables are kept. Raises BadVariable for malformed or unset
    variables, invalid parts of the caller or paths, and secrets unless ``secrets`` is true. Never
    quotes values.
    """
    pieces = list(_pieces(text, secrets=secrets))
    for piece in pieces:
        if isinstance(piece, str):
            check_variables(piece)
    if environment is None:
        return _template(pieces)
    if unset := unset_variables(text, environment):
        raise BadVariable(not_set(unset))
    return _template(
        [fill_in(piece, environment) if isinstance(piece, str) else piece for piece in pieces]
    )


def read_caller_parts(text: str) -> str | CallerTemplate:
    """Return the template of a text without replacing variables, as in ``cwd``.

    Raises BadVariable for an invalid part of the caller or path.
    """
    return _template(list(_pieces(text, secrets=True)))


def has_caller_text(text: str) -> bool:
    """Return whether a text has a part of the caller or a secret, well-formed or not."""
    return any(found["escape"] is None for found in _TOKEN.finditer(text))


def without_caller_texts(text: str) -> str:
    """Return a text without its parts of the caller and its secrets."""
    return _TOKEN.sub(lambda found: "" if found["escape"] is None else found[0], text)


def _template(pieces: list[str | CallerPart | SecretPath]) -> str | CallerTemplate:
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(piece for piece in pieces if isinstance(piece, str))
    return CallerTemplate(tuple(piece for piece in pieces if piece != ""))


def _pieces(text: str, *, secrets: bool) -> Iterator[str | CallerPart | SecretPath]:
    """Yield the parts of the caller, the secrets, and the texts between them, unchanged."""
    start = 0
    for found in _TOKEN.finditer(text):
        if found["escape"] is not None:
            continue
        yield text[start : found.start()]
        start = found.end()
        if found["part"] is not None:
            yield _caller_part(found["part"])
        elif secrets:
            yield _secret_path(found["path"])
        else:
            raise BadVariable("has ${secret:…}, which is allowed in args, cwd, env and headers")
    yield text[start:]


def _caller_part(name: str) -> CallerPart:
    try:
        return CallerPart(name)
    except ValueError:
        raise BadVariable(
            f"has ${{caller.…}} with {quote(name)}, which is not a part of a caller; write one "
            f"of {_PARTS}"
        ) from None


def _secret_path(written: str) -> SecretPath:
    """Read a path; absolute paths and ``..`` would leave the folder of secrets."""
    parts: list[str | CallerPart] = []
    for segment in written.split("/"):
        names = _PART_IN_PATH.findall(segment)
        around = _PART_IN_PATH.sub("", segment)
        if not segment or segment == "." or segment.startswith(".."):
            raise BadVariable(
                "has a ${secret:PATH} with an empty segment, or one that is . or begins with ..; "
                "write a relative path below MCP_PROXY_SECRETS_DIR"
            )
        if not re.fullmatch(f"{_IN_PATH}*", around):
            raise BadVariable(
                "has a ${secret:PATH} with a $, a \\ or a control character; only ${caller.…} is "
                "replaced in the path"
            )
        if len(names) > 1:  # tenant "a" and user "bc" would read the secret of "ab" and "c"
            raise BadVariable(
                "has a ${secret:PATH} with two parts of the caller in one segment; put a / between "
                "them"
            )
        parts += [*(["/"] if parts else []), *_segment(segment)]
    return SecretPath(_joined(parts))


def _segment(segment: str) -> Iterator[str | CallerPart]:
    for index, piece in enumerate(_PART_IN_PATH.split(segment)):
        if index % 2:
            yield _caller_part(piece)
        elif piece:
            yield piece


def _joined(parts: list[str | CallerPart]) -> tuple[str | CallerPart, ...]:
    joined: list[str | CallerPart] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, CallerPart) or last is None or isinstance(last, CallerPart):
            joined.append(part)
        else:
            joined[-1] = last + part
    return tuple(joined)
