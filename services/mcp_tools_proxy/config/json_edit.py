"""Edits one key of a JSON file in place, and replaces files atomically.

All other text stays as its author wrote it, layout and variables included: only the positions of
the root's keys are read.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

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

    A new key is added at the end, with the indentation of the first one.
    """
    members = list(_members(text))
    encoded = json.dumps(value, ensure_ascii=False)
    for member in members:
        if member.key == key:
            return text[: member.value_start] + encoded + text[member.value_end :]
    brace = text.index("{")
    if not members:
        return f"{text[: brace + 1]}{json.dumps(key)}: {encoded}{text[brace + 1 :]}"
    first, last = members[0], members[-1]
    indent = text[brace + 1 : first.key_start]
    colon = text[first.key_end : first.value_start]
    added = f",{indent}{json.dumps(key)}{colon}{encoded}"
    return text[: last.value_end] + added + text[last.value_end :]


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the content of a file, keeping its mode and, where permitted, its owner.

    A reader sees the old file or the whole new one. A symbolic link stays, and its target is
    replaced. Raises OSError.
    """
    target = path.resolve()
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        with unfinished.open("xb") as file:
            if target.exists():
                _copy_ownership(file.fileno(), target.stat())
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _copy_ownership(descriptor: int, original: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):  # only root may change the owner of a file
        os.fchown(descriptor, original.st_uid, original.st_gid)
    os.fchmod(descriptor, original.st_mode & 0o7777)


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
