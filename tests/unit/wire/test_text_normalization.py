import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.wire.text import PIECE_CHARS, normalize

FORMS = ["NFC", "NFKC"]


@pytest.mark.parametrize("form", FORMS)
@given(
    text=st.text(st.sampled_from("ae\u0301\u0308й\uac00ﬁ ｌ"), max_size=40).map(
        lambda t: t * 20 + "x"
    )
)
def test_normalizing_in_pieces_gives_the_same_result(form: str, text: str) -> None:
    spaced = " ".join(text[i : i + 50] for i in range(0, len(text), 50))
    assert normalize(form, spaced) == unicodedata.normalize(form, spaced)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_long_run_of_marks_takes_linear_time(form: str) -> None:
    """Quadratic time would be minutes, beyond the test's timeout."""
    text = "a" + "\u0315\u0300\u05ae" * 300_000
    assert len(normalize(form, text)) == pytest.approx(len(text), rel=0.01)  # type: ignore[arg-type]


def test_ascii_is_unchanged() -> None:
    text = "plain " * PIECE_CHARS
    assert normalize("NFKC", text) is text
