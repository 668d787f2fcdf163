"""What a query of Prometheus names: metrics and labels. No parser: it knows the forms we write."""

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
    """One query: its metrics with the labels that each is selected by, and those it groups by."""

    selected: frozenset[tuple[str, frozenset[str]]]
    grouped: frozenset[str]

    @property
    def metrics(self) -> frozenset[str]:
        """Names of series, as they are in the query."""
        return frozenset(name for name, _ in self.selected)


def parse_query(expression: str) -> Query:
    """Return what a query names."""
    selected = frozenset(
        (found[1], frozenset(_MATCHED.findall(found[2] or "")))
        for found in _SELECTED.finditer(expression)
    )
    grouped = _GROUPED.findall(_STRING.sub("", expression))
    return Query(selected=selected, grouped=frozenset(_words(grouped)))


def labels_of_legend(text: str) -> frozenset[str]:
    """Return the labels that a legend or an alert's text shows."""
    return frozenset(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))


def _words(groups: list[str]) -> Iterator[str]:
    for group in groups:
        yield from re.findall(r"\w+", group)
