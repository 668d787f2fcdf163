"""Edits one key of a JSON text in place.

All other text stays as its author wrote it, layout and variables included: only the positions of
the root's keys are read.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mcp_tools_proxy.config.json_file import strict_json

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """The position of one ``"key": value`` of the root object, as character offsets."""

    key: str
    key_start: int
    key_end: int
    value_start: int
    value_end: int


def with_key(text: str, key: str, value: str) -> str:
    """Return ``text``, a valid JSON object, with the root's ``key`` set to ``value``.

    A new key is added at the end, with the indentation of the first one. Comments stay.
    """
    strict = strict_json(text)
    members = list(_members(strict))
    encoded = json.dumps(value, ensure_ascii=False)
    for member in members:
        if member.key == key:
            return text[: member.value_start] + encoded + text[member.value_end :]
    brace = strict.index("{")
    if not members:
        return f"{text[: brace + 1]}{json.dumps(key)}: {encoded}{text[brace + 1 :]}"
    first, last = members[0], members[-1]
    indent = strict[brace + 1 : first.key_start]
    if indent != text[brace + 1 : first.key_start]:  # a comment is not repeated
        indent = f"\n{indent.rpartition(chr(10))[2]}"
    colon = strict[first.key_end : first.value_start]
    added = f",{indent}{json.dumps(key)}{colon}{encoded}"
    return text[: last.value_end] + added + text[last.value_end :]


def _members(text: str) -> Iterator[_Member]:
    at = _past_space(text, text.index("{") + 1)
    while text[at] != "}":
        key, key_end = _DECODER.raw_decode(text, at)
        value_start = _past_space(text, _past_space(text, key_end) + 1)
        _, value_end = _DECODER.raw_decode(text, value_start)
        yield _Member(
            key=key, key_start=at, key_end=key_end, value_start=value_start, value_end=value_end
        )
        at = _past_space(text, value_end)
        if text[at] == ",":
            at = _past_space(text, at + 1)


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
