"""Parts of the caller and secrets in values of mcp.json: ``${caller.…}`` and ``${secret:PATH}``.

Such a value is a CallerTemplate, which is filled in for each caller; any other is a plain text as
before. Variables of the environment are replaced when the file is loaded, and what replaces them is
not scanned again. ``${secret:-default}`` stays the variable ``secret`` with a default.
"""

import re
from collections.abc import Iterator, Mapping

from mcp_tools_proxy.config.texts.env_vars import (
    PLAIN_PIECES,
    BadVariable,
    check_variables,
    fill_in,
    not_set,
    unset_variables,
)
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate, SecretPath
from mcp_tools_proxy.wire.text import quote

_PART = rf"\$\{{caller\.(?:{'|'.join(part.value for part in CallerPart)})\}}"
_IN_PATH = r"[^${}/\\\u0000-\u001f\u007f]"
_SEGMENT = rf"(?!\.(?:[/}}]|\.))(?:{_IN_PATH}+(?:{_PART}{_IN_PATH}*)?|{_PART}{_IN_PATH}*)"
_SECRET = rf"\$\{{secret:(?!-){_SEGMENT}(?:/{_SEGMENT})*\}}"

BOUND_PATTERN = f"^(?:{PLAIN_PIECES}|{_PART})*$"
"""A well-formed value with parts of the caller, as a pattern of JSON Schema."""

CALLER_PATTERN = f"^(?:{PLAIN_PIECES}|{_PART}|{_SECRET})*$"
"""A well-formed value with parts of the caller or secrets, as a pattern of JSON Schema."""

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
    """Return the template of a text, or a plain text if it names no part of a caller.

    Variables are replaced, or left as they are where ``environment`` is None. Raises BadVariable
    for what is malformed, for a part of the caller or a path that cannot be, for unset variables,
    and for a secret where ``secrets`` are not possible. No message quotes a value.
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
    """Return the template of a text in which variables are not replaced, as in ``cwd``.

    Raises BadVariable for a part of the caller, or a path, that cannot be.
    """
    return _template(list(_pieces(text, secrets=True)))


def has_caller_text(text: str) -> bool:
    """Return whether a text has a part of the caller, or a secret, well-formed or not."""
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
    """Read a path: an absolute one, or one with ``..``, would read what is no secret of ours."""
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
        if len(names) > 1:  # tenant "a" and user "bc" would read what is of "ab" and "c"
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
    """Return the parts with neighbouring texts made one."""
    joined: list[str | CallerPart] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, CallerPart) or last is None or isinstance(last, CallerPart):
            joined.append(part)
        else:
            joined[-1] = last + part
    return tuple(joined)
