"""The interface of the stores of runs, and a store in the memory of one process."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from mcp_tools_proxy.domain.errors import RateLimitExceeded, RunExpired, StateUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.runs.run_memory import RunMemory

T = TypeVar("T")
Change = Callable[[RunMemory], T]
"""Changes a memory and returns a result. It may be called again with a newer memory."""

OPENINGS_S = 3600.0
"""Seconds in which a user's new runs are counted."""

RUN_BYTES = 600
"""Memory of a run and its mark besides its content: key and table entries."""


class RunKey(NamedTuple):
    """The tenant of a run, its user, and a SHA-256 of both and the run's id."""

    tenant_id: str
    user: str
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of stored runs.

    A run ends after ``idle_s`` without a call; its mark stays for another ``mark_s``. ``runs``
    limits a tenant's runs and marks together, ``new_runs`` those that a user begins in an hour.
    """

    idle_s: float = 3600.0
    mark_s: float = 7 * 86_400.0
    runs: int = 100_000
    new_runs: int = 1_000


class RunStore(ABC):
    """Keeps the memory of each run, and a mark when it has ended.

    Marks are never dropped early: without its mark, the id of an ended run would begin a run that
    has read nothing.
    """

    @abstractmethod
    async def update(self, key: RunKey, change: Change[T]) -> T:
        """Change the memory of a run atomically, and return the result of ``change``.

        An unknown run begins. Nothing is kept if ``change`` raises. Raises RunExpired for a run
        that ended, RateLimitExceeded or StateUnavailable for a new one without space, and
        StateUnavailable while the store is down.
        """


def ended_run() -> RunExpired:
    """Build the error for an id whose run has ended."""
    return RunExpired("this run has ended; start another one, with an id that was never used")


def too_many_new_runs(wait_s: float) -> RateLimitExceeded:
    """Build the error for a user who began too many runs."""
    return RateLimitExceeded(
        "this user began too many runs in the last hour; continue one of them, or try again later",
        retry_after_s=wait_s,
    )


def no_space() -> StateUnavailable:
    """Build the error for a new run of a tenant whose share of the store is used."""
    return StateUnavailable(
        "this request did nothing: the store has no space for another run of this tenant; try "
        "again later",
        reason="no space for runs",
    )
