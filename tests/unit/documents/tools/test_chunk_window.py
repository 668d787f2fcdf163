"""The effective radius, and trimming to the byte limit (T-02)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.tools.chunk_window import trim_window, window_radius
from tests.support.tables import each_row

pytestmark = pytest.mark.requirement("T-02")

texts = st.lists(st.text(st.sampled_from("aя€😀"), max_size=20), min_size=1, max_size=7)


@given(st.lists(st.none() | st.integers(0, 50), max_size=3))
def test_the_smallest_configured_radius_is_used(radii: list[int | None]) -> None:
    known = [radius for radius in radii if radius is not None]
    assert window_radius(*radii) == (min(known) if known else 2)


@each_row(("total", "radius"), [(1, 0), (2, 0), (3, 1), (5, 2), (8, 3)])
def test_a_legacy_total_counts_the_anchor(total: int, radius: int) -> None:
    assert window_radius(None, legacy_total=total) == radius


@given(texts, st.data(), st.integers(4, 120))
def test_the_kept_chunks_are_within_the_limit(
    window: list[str], data: st.DataObject, limit: int
) -> None:
    anchor = data.draw(st.integers(0, len(window) - 1))
    kept = trim_window(window, anchor, limit)
    assert sum(len(text.encode()) for text in kept.values()) <= limit


@given(texts, st.data(), st.integers(4, 120))
def test_the_kept_chunks_are_contiguous_around_the_anchor(
    window: list[str], data: st.DataObject, limit: int
) -> None:
    anchor = data.draw(st.integers(0, len(window) - 1))
    kept = trim_window(window, anchor, limit)
    assert anchor in kept
    assert list(kept) == list(range(min(kept), max(kept) + 1))


@given(texts, st.data())
def test_chunks_within_the_limit_are_not_cut(window: list[str], data: st.DataObject) -> None:
    anchor = data.draw(st.integers(0, len(window) - 1))
    assert list(trim_window(window, anchor, 10_000).values()) == window


def test_the_farthest_chunks_are_cut_first() -> None:
    kept = trim_window(["aaaa", "bbbb", "cccc", "dddd", "eeee"], 2, 14)
    assert kept == {1: "bb"[:2] + "bb", 2: "cccc", 3: "dddd", 4: "ee"}


def test_a_chunk_before_the_anchor_loses_its_beginning() -> None:
    assert trim_window(["1234", "5678"], 1, 6) == {0: "34", 1: "5678"}
