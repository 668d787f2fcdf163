import pytest

from tests.plain_english import GROUPS, MOST_PER_10_000, rate_of


@pytest.mark.full
def test_texts_are_in_plain_english() -> None:
    """``make check`` runs it, too. ``python -m tests.plain_english PATH`` lists the places."""
    rates = {group: rate_of(group) for group in GROUPS}
    assert min(rate.words for rate in rates.values()) > 1_000
    sentences = [
        found
        for rate in rates.values()
        if rate.per_10_000 > MOST_PER_10_000
        for _, found in rate.found
    ]
    assert not sentences, "Rewrite these sentences:\n" + "\n".join(sentences)
