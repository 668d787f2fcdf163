"""Reads the front matter of Markdown files: YAML, TOML (``+++``), JSON or a title block (``%``)."""

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from functools import partial
from typing import NamedTuple

import yaml  # type: ignore[import-untyped] # it ships no types

from mcp_tools_proxy.documents.importers.base import (
    NO_FACTS,
    FileFacts,
    WarningCode,
    iso_date,
    language_tag,
    one_line,
    warning,
)
from mcp_tools_proxy.domain.document import ImportWarning

MAX_CHARS = 64 * 1024
"""Limit for front matter; PyYAML takes 1 s for it. Longer blocks are text."""

MAX_TAGS = 100
MAX_TAG_CHARS = 100

_TITLES = ("title", "pagetitle")
_TAGS = ("tags", "tag", "keywords")
_DATES = ("date", "published", "publishdate", "pubdate", "created")
_LANGUAGES = ("lang", "language", "locale")
_READ = frozenset((*_TITLES, *_TAGS, *_DATES, *_LANGUAGES))

_YAML_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE)
_TOML_END = re.compile(r"^\+\+\+[ \t]*(?:\n|\Z)", re.MULTILINE)
_TITLE_BLOCK = re.compile(r"(?:%(?:[ \t].{0,1000})?\n(?:[ \t]+\S.{0,1000}\n){0,20}){1,3}(?=\n|\Z)")
_FIELD = re.compile(r"[\w.-]+[ \t]*:(?:[ \t]|$)")
_BLOCK = re.compile(r"[>|][+-]?\d?[+-]?")
_TEMPLATE = re.compile(r"\{\{|\{%|<%|\$\{")

_Fields = Mapping[str, object]


class FrontMatter(NamedTuple):
    """The facts in the front matter, and the text after it."""

    facts: FileFacts
    text: str
    warnings: tuple[ImportWarning, ...] = ()


def split_front_matter(text: str) -> FrontMatter:
    """Split front matter from the text of a file."""
    first = text.partition("\n")[0].rstrip()
    start = len(text.partition("\n")[0]) + 1
    fields: _Fields | None = None
    end = 0
    if first == "---" and (found := _YAML_END.search(text, start, start + MAX_CHARS)):
        end = found.end()
        try:
            fields = _yaml_fields(text[start : found.start()])
        except _Unclosed:
            return FrontMatter(
                NO_FACTS, text[end:], (warning(WarningCode.BROKEN_FRONT_MATTER, _BROKEN),)
            )
    elif first == "+++" and (found := _TOML_END.search(text, start, start + MAX_CHARS)):
        fields, end = _toml_fields(text[start : found.start()]), found.end()
    elif first.startswith("{"):
        fields, end = _json_fields(text)
    elif block := _TITLE_BLOCK.match(text):  # of Pandoc: title, authors, date
        names = ("title", "author", "date")
        fields = dict(zip(names, re.split(r"(?m)^%", block[0])[1:], strict=False))
        end = block.end()
    if fields is None or (text[start : start + 1] == "\n" and not _READ & set(fields)):
        return FrontMatter(NO_FACTS, text)
    return FrontMatter(_facts({name.lower(): it for name, it in fields.items()}), text[end:])


_BROKEN = "The front matter is not valid YAML, so its title, tags, date and language were left out"


class _Unclosed(Exception):
    """A quote or bracket is not closed."""


def _yaml_fields(block: str) -> _Fields | None:
    """Return the fields of a YAML mapping; all scalars stay text, so that ``no`` is Norwegian.

    YAML with errors, such as a second colon in a title, is read by lines. Raises _Unclosed.
    """
    try:
        # no aliases are expanded, no classes built
        loaded = yaml.load(block, yaml.BaseLoader)  # noqa: S506 - builds only text, lists and mappings
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        return _fields_by_line(block)
    if loaded in (None, "") and not block.strip():
        return {}
    if isinstance(loaded, dict) and all(isinstance(name, str) for name in loaded):
        return loaded
    return None


def _fields_by_line(block: str) -> _Fields | None:
    fields: dict[str, object] = {}
    name = ""
    for line in block.split("\n"):
        if _FIELD.match(line):
            name, _, value = line.partition(":")
            name = name.strip()
            fields[name] = "" if _BLOCK.fullmatch(value.strip()) else _unquoted(value)
        elif line[:1] not in {"", " ", "\t", "#", "-"}:
            return None
        elif name and line[:1] in {" ", "\t"} and not line.strip().startswith("-"):
            fields[name] = f"{fields[name]} {line.strip()}".strip()
    if any(map(_is_unclosed, fields.values())):
        raise _Unclosed
    return fields or None


_CLOSING = {'"': '"', "'": "'", "[": "]", "{": "}"}


def _is_unclosed(value: object) -> bool:
    text = str(value)
    return text[:1] in _CLOSING and _CLOSING[text[:1]] not in text[1:]


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def _toml_fields(block: str) -> _Fields | None:
    try:
        return tomllib.loads(block)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return None


def _json_fields(text: str) -> tuple[_Fields | None, int]:
    """Return a JSON object that starts the text, if it has a field of front matter, and its end."""
    try:
        loaded, end = json.JSONDecoder().raw_decode(text[:MAX_CHARS])
    except (ValueError, RecursionError):
        return None, 0
    after = re.compile(r"[ \t]*(?:\n|\Z)").match(text, end)
    if after is None or not isinstance(loaded, dict):
        return None, 0
    return (loaded, after.end()) if _READ & {name.lower() for name in loaded} else (None, 0)


def _facts(fields: _Fields) -> FileFacts:
    first = partial(_first_text, fields)
    dates = (iso_date(_text(fields.get(name))) for name in _DATES)
    return FileFacts(
        title=one_line(first(_TITLES)),
        tags=_tags(fields),
        date=next((found for found in dates if found), None),
        language=language_tag(first(_LANGUAGES)),
    )


def _first_text(fields: _Fields, names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := _text(fields.get(name)))), "")


def _text(value: object) -> str:
    """Return a scalar as text; a template that was not filled in is none."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return ""
    try:
        text = str(value).strip()
    except ValueError:  # a hexadecimal number of over 4,300 digits in TOML
        return ""
    return "" if text in {"null", "Null", "NULL", "~"} or _TEMPLATE.search(text) else text


def _tags(fields: _Fields) -> tuple[str, ...]:
    taxonomies = fields.get("taxonomies")  # Zola
    places = [fields, taxonomies] if isinstance(taxonomies, dict) else [fields]
    for place in places:
        for name in _TAGS:
            if found := _listed(place.get(name)):
                return tuple(dict.fromkeys(found))[:MAX_TAGS]
    return ()


def _listed(value: object) -> list[str]:
    if isinstance(value, list):
        texts = [_text(item) for item in value[:MAX_TAGS]]
    else:
        text = _text(value)
        is_hashed = text.startswith("#")
        texts = text.split() if is_hashed and "," not in text else re.split(r"[,;]", text)
    tags = (one_line(text).lstrip("#").strip() for text in texts)
    return [tag for tag in tags if 0 < len(tag) <= MAX_TAG_CHARS]
