"""How wide a chunk window may be, and what of it survives the byte limit (T-02)."""

from collections.abc import Sequence

from mcp_tools_proxy.wire.text import cut_utf8, cut_utf8_tail, utf8_len

DEFAULT_RADIUS = 2


def window_radius(*radii: int | None, legacy_total: int | None = None) -> int:
    """Give R, the chunks allowed on each side of an anchor.

    R is the smallest of the radii that are set and of floor((N-1)/2) for a legacy total N ≥ 1; 2
    when none is set (T-02).
    """
    known = [radius for radius in radii if radius is not None]
    if legacy_total is not None:
        known.append((legacy_total - 1) // 2)
    return min(known, default=DEFAULT_RADIUS)


def trim_window(texts: Sequence[str], anchor: int, max_bytes: int) -> dict[int, str]:
    """Cut a window's texts to ``max_bytes`` of UTF-8 in all; keys are the places that keep text.

    Room is given from the anchor outwards, so the far edges go first: a chunk before the anchor
    loses its beginning, the anchor and the chunks after it their end (T-02).
    """
    kept: dict[int, str] = {}
    room = max_bytes
    for place in sorted(range(len(texts)), key=lambda i: (abs(i - anchor), i < anchor)):
        cut = cut_utf8_tail if place < anchor else cut_utf8
        piece = cut(texts[place], room)
        if piece or not texts[place]:
            kept[place] = piece
        room -= utf8_len(piece)
        if len(piece) < len(texts[place]):
            break
    return dict(sorted(kept.items()))
