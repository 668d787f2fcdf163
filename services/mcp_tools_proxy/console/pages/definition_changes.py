"""Changed definitions of one server, with their differences in parts of limited size."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcp_tools_proxy.console.api_client import DEFINITIONS
from mcp_tools_proxy.console.page_request import PageRequest
from mcp_tools_proxy.console.page_text import page_cost, page_text
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.api.definition_routes import (
    DefinitionItem,
    DefinitionsAnswer,
    DefinitionWords,
)

PAGE_CHANGES = 20
INLINE_COST = 3_000
"""Longer changes have their own pages, so that nothing is accepted unseen."""

LIST_COST = 26_000
PART_COST = 24_000
PIECE_CHARS = 4_000
CONTEXT_CHARS = 160
"""Unchanged characters shown before and after a change."""

FLAGS: Mapping[str, str] = {
    "bidi_control": "contains characters that change the text direction",
    "tag_character": "contains invisible tag characters that models can read",
    "zero_width": "contains zero-width characters",
    "format_character": "contains control or other invisible characters",
    "html_comment": "contains an HTML comment, which models read and people may not see",
    "lookalike_name": "looks like the name of another tool",
}

STATUSES: Mapping[str, tuple[str, str]] = {
    "changed": ("warn", "changed"),
    "new": ("warn", "new"),
    "missing": ("idle", "no longer offered"),
    "unlocked": ("idle", "nothing to compare with"),
    "as_locked": ("ok", "unchanged, flagged"),
}

KINDS: Mapping[str, str] = {
    "tool": "Tool",
    "prompt": "Prompt",
    "resource": "Resource",
    "resource_template": "Resource template",
    "instructions": "Instructions of the server",
}


@dataclass(frozen=True, slots=True)
class ShownPiece:
    """A piece of text: ``same``, ``removed``, ``added``, or ``left_out`` with a count."""

    edit: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownField:
    """A changed field of a definition, or the part of it on one page."""

    name: str
    pieces: Sequence[ShownPiece]


Part = Sequence[ShownField]


async def definitions_of(page: PageRequest, server_id: str) -> DefinitionsAnswer:
    """Return the definitions of one server that need attention, with the mode and lock state."""
    answer = await page.api.read(DEFINITIONS)
    items = [it for it in answer.items if it.server_id == server_id]
    return answer.model_copy(update={"items": items})


def shown_changes(items: Sequence[DefinitionItem]) -> list[Mapping[str, Any]]:
    """Return the changes of a page, short ones with their difference."""
    left = LIST_COST
    shown: list[Mapping[str, Any]] = []
    for item in items:
        parts = parts_of(item, PART_COST)
        cost = sum(map(_cost, parts))
        is_inline = len(parts) <= 1 and cost <= min(INLINE_COST, left)
        left -= 800 + (cost if is_inline else 0)
        shown.append(
            {
                **facts(item),
                "fields": parts[0] if is_inline and parts else None,
                "is_long": not is_inline,
            }
        )
    return shown


def facts(item: DefinitionItem) -> Mapping[str, Any]:
    """Return the template context of a definition without its difference."""
    kind, label = STATUSES.get(item.status, ("bad", item.status))
    name = item.shown_name or item.name
    return {
        "kind": item.kind,
        "kind_label": KINDS.get(item.kind, item.kind),
        "key": item.name,
        "name": page_text(name, 400),
        "state_kind": "bad" if item.quarantined or item.hidden else kind,
        "state": _state(item, label),
        "status": item.status,
        "sha256": item.sha256,
        "flags": [(FLAGS.get(it.reason, it.reason), it.field) for it in item.flags],
        "guards": [
            f"Guard {it.guard} ({it.action}) found: {it.kind} ({it.count})" for it in item.guards
        ],
        "varying": [page_text(it.field, 400).text for it in item.unstable or ()],
        "may_accept": item.status in ("changed", "new") and item.sha256 is not None,
    }


def _state(item: DefinitionItem, label: str) -> str:
    if item.unstable is not None:
        label = f"{label}, unstable"
    if item.quarantined:
        return f"{label}, quarantined"
    return f"{label}, hidden by a guard" if item.hidden else label


def parts_of(item: DefinitionItem, max_cost: int) -> list[Part]:
    """Split the difference into parts that each fit a page, without omitting changes."""
    parts: list[list[ShownField]] = []
    left = 0
    for difference in item.difference:
        name = page_text(difference.field, 400).text
        pieces: list[ShownPiece] = []
        for piece in _pieces(difference.words):
            cost = page_cost(piece.text) + 60
            if cost > left:
                if pieces:
                    parts[-1].append(ShownField(name, pieces))
                    pieces = []
                parts.append([])
                left = max_cost - page_cost(name) - 60
            left -= cost
            pieces.append(piece)
        if pieces:
            left -= page_cost(name) + 60
            parts[-1].append(ShownField(name, pieces))
    return [part for part in parts if part]


def _cost(part: Part) -> int:
    return sum(
        60 + page_cost(field.name) + sum(60 + page_cost(it.text) for it in field.pieces)
        for field in part
    )


def _pieces(words: Sequence[DefinitionWords]) -> Iterator[ShownPiece]:
    """Yield the words in bounded pieces; unchanged text is shortened, changed text is complete."""
    last = len(words) - 1
    for place, word in enumerate(words):
        text = word.text
        if word.edit != "same":
            for begin in range(0, len(text), PIECE_CHARS):
                yield ShownPiece(word.edit, text[begin : begin + PIECE_CHARS])
            continue
        head = 0 if place == 0 else CONTEXT_CHARS
        tail = 0 if place == last else CONTEXT_CHARS
        left_out = len(text) - head - tail
        if left_out <= CONTEXT_CHARS:
            yield ShownPiece("same", text)
            continue
        if head:
            yield ShownPiece("same", text[:head])
        yield ShownPiece("left_out", f"{left_out:,}")
        if tail:
            yield ShownPiece("same", text[-tail:])
