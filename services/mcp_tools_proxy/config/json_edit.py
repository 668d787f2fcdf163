"""Changing one key of a JSON file by hand: all else stays as its author wrote it.

Variables and secrets are never touched, since nothing is read but the places of the root's keys.
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
    """Where one ``"key": value`` of the root object stands, as character offsets."""

    key: str
    key_start: int
    key_end: int
    value_start: int
    value_end: int


def with_key(text: str, key: str, value: str) -> str:
    """Give ``text``, a valid JSON object, with the root's ``key`` set to ``value``.

    A key that is new goes to the end, laid out like the first one.
    """
    members = list(_members(text))
    shown = json.dumps(value, ensure_ascii=False)
    for member in members:
        if member.key == key:
            return text[: member.value_start] + shown + text[member.value_end :]
    brace = text.index("{")
    if not members:
        return f"{text[: brace + 1]}{json.dumps(key)}: {shown}{text[brace + 1 :]}"
    first, last = members[0], members[-1]
    indent = text[brace + 1 : first.key_start]
    colon = text[first.key_end : first.value_start]
    added = f",{indent}{json.dumps(key)}{colon}{shown}"
    return text[: last.value_end] + added + text[last.value_end :]


def write_atomically(path: Path, content: bytes) -> None:
    """Put ``content`` in the place of the file, keeping its mode and, where allowed, its owner.

    A reader sees the old file or the whole new one. Through a symbolic link the file behind it is
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
    with contextlib.suppress(PermissionError):  # only root gives files away
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
