"""Suspicious contents of definitions, locked or not."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple, Self

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.aliases import alias_of, has_plain_alias, qualified_name
from mcp_tools_proxy.wire.lookalikes import folded, joined_skeleton, skeleton
from mcp_tools_proxy.wire.text import HIDDEN, HiddenKind, hidden_kinds

HTML_COMMENT = "<!--"


class FlagReason(StrEnum):
    """Why a definition is suspicious."""

    BIDI_CONTROL = "bidi_control"
    TAG_CHARACTER = "tag_character"
    ZERO_WIDTH = "zero_width"
    FORMAT_CHARACTER = "format_character"
    HTML_COMMENT = "html_comment"
    LOOKALIKE_NAME = "lookalike_name"


class Flag(NamedTuple):
    """One suspicion: its reason, and the top-level field of the definition."""

    reason: FlagReason
    field: str


_OF_KIND: Mapping[HiddenKind, FlagReason] = {kind: FlagReason(kind.value) for kind in HiddenKind}


_SUSPICIOUS = re.compile(rf"{HIDDEN.pattern}|{HTML_COMMENT}|\\[ubf]")
"""Matches canonical texts that can need a flag; control characters are escaped in them."""


def text_flags(definition: JsonObject, canonical: str) -> tuple[Flag, ...]:
    """Return the flags of a definition's texts; ``canonical`` is its canonical text."""
    if not _SUSPICIOUS.search(canonical):  # most definitions: no text is read twice
        return ()
    found = {
        Flag(reason, name): None
        for name, value in definition.items()
        for text in _texts(value)
        for reason in _reasons(text)
    }
    return tuple(found)


def _reasons(text: str) -> Iterator[FlagReason]:
    for kind in hidden_kinds(text):
        yield _OF_KIND[kind]
    if HTML_COMMENT in text:
        yield FlagReason.HTML_COMMENT


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """The names that a tool's name must not look like."""

    servers: frozenset[str] = frozenset()
    """The ids of all servers, folded."""
    local: Mapping[str, str] = field(default_factory=dict)
    """The local tools' names, by their joined skeletons."""
    full: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    """Joined skeleton → server and name, for qualified names and aliases of tools."""
    bare: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    """Skeleton of a bare name → server and folded name of the tools."""

    @classmethod
    def of(
        cls, servers: Iterable[str], local: Iterable[str], tools: Iterable[tuple[str, str]]
    ) -> Self:
        """Collect the names; ``tools`` are server ids and bare names."""
        full: dict[str, set[tuple[str, str]]] = {}
        bare: dict[str, set[tuple[str, str]]] = {}
        for server_id, name in tools:
            bare.setdefault(skeleton(name), set()).add((server_id, folded(name)))
            names = [qualified_name(server_id, name)]
            if not has_plain_alias(server_id, name):  # a plain alias differs only in its separator
                names.append(alias_of(server_id, name))
            for it in names:
                full.setdefault(joined_skeleton(it), set()).add((server_id, it))
        return cls(
            servers=frozenset(map(folded, servers)),
            local={joined_skeleton(name): name for name in local},
            full={it: frozenset(owners) for it, owners in full.items()},
            bare={it: frozenset(owners) for it, owners in bare.items()},
        )

    def is_lookalike(self, key: DefinitionKey) -> bool:
        """Return whether an item's name looks like one of another server or of the gateway.

        A lookalike is the same to the eye but different to a program. So an equal plain name does
        not count (Elasticsearch has a ``search_documents``, too), nor one with ``-`` as separator,
        nor one with a topic prefix: ``excel_copy_sheet`` next to ``copy_sheet`` of a server
        ``excel``.
        """
        if key.kind not in (DefinitionKind.TOOL, DefinitionKind.PROMPT):
            return False
        plain = folded(key.name)
        others = self.servers - {folded(key.server_id)}
        if any(plain.partition(joint)[0] in others for joint in (":", "__") if joint in plain):
            return True
        return key.kind is DefinitionKind.TOOL and self._is_like_a_tool(key, plain)

    def _is_like_a_tool(self, key: DefinitionKey, plain: str) -> bool:
        joined = joined_skeleton(key.name)
        local = self.local.get(joined)
        if local is not None and key.name not in (local, local.replace("_", "-")):
            return True
        if any(
            owner != key.server_id and not _is_topic_prefix(key.name, other)
            for owner, other in self.full.get(joined, frozenset())
        ):
            return True
        return any(
            owner != key.server_id and other != plain
            for owner, other in self.bare.get(skeleton(key.name), frozenset())
        )


_WORDS = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")


def _is_topic_prefix(name: str, full_name: str) -> bool:
    """Return whether ``name`` consists of plain words, the same as in ``server_id:tool``.

    Words are joined by one ``_`` or ``-``, unlike in the gateway's names, which have ``:`` or
    ``__``.
    """
    if not _WORDS.fullmatch(name) or ":" not in full_name:
        return False
    return _plain_words(name) == _plain_words(full_name)


def _plain_words(name: str) -> str:
    return name.lower().replace(":", "_").replace("-", "_")
