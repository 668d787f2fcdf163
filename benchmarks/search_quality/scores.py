"""Scores of an engine: hit rates with intervals, and the mean reciprocal rank."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

FIRST = 3


@dataclass(frozen=True, slots=True)
class Score:
    """Ranks of the first correct page by question; 0 if it was not found."""

    ranks: Sequence[int]

    def share(self, most: int) -> float:
        """Return the share of questions with a correct page in the first ``most`` results."""
        return sum(1 for rank in self.ranks if 1 <= rank <= most) / len(self.ranks)

    def interval(self, most: int) -> tuple[float, float]:
        """Return the 95 % interval of that share (Wilson's)."""
        z, n, share = 1.96, len(self.ranks), self.share(most)
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return middle - reach, middle + reach

    def mean_reciprocal_rank(self) -> float:
        """Return the mean of 1 ÷ rank, 0 if not found."""
        return sum(1 / rank for rank in self.ranks if rank) / len(self.ranks)

    def cells(self) -> tuple[str, ...]:
        """Return table cells: first three, first, MRR, with intervals."""
        shown = [str(len(self.ranks))]
        for most in (FIRST, 1):
            low, high = self.interval(most)
            shown.append(f"{self.share(most):.2f} ({low:.2f}-{high:.2f})")
        return (*shown, f"{self.mean_reciprocal_rank():.2f}")


def rank_of(found: Sequence[int], right: Collection[int]) -> int:
    """Return the 1-based rank of the first correct page; 0 if it is missing."""
    return next((rank for rank, page in enumerate(found, start=1) if page in right), 0)
