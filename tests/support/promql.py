"""Metrics and labels in a Prometheus query. Not a parser: it supports the forms we use."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_METRIC = r"(?:[a-z]+(?:_[a-z]+)*:)?\b(?:mcp_proxy|process|python)_\w+(?::\w+)?|\bup\b"
_SELECTED = re.compile(rf"({_METRIC})(?:\{{([^}}]*)\}})?")
_GROUPED = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")
_MATCHED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
_STRING = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class Query:
    selected: frozenset[tuple[str, frozenset[str]]]
    grouped: frozenset[str]

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.selected)


def parse_query(expression: str) -> Query:
    selected = frozenset(
        (found[1], frozenset(_MATCHED.findall(found[2] or "")))
        for found in _SELECTED.finditer(expression)
    )
    grouped = _GROUPED.findall(_STRING.sub("", expression))
    return Query(selected=selected, grouped=frozenset(_words(grouped)))


def labels_of_legend(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))


def _words(groups: list[str]) -> Iterator[str]:
    for group in groups:
        yield from re.findall(r"\w+", group)
