"""A run: the calls of an LLM runtime for one task of a user, and the labels of tools."""

from enum import StrEnum

from mcp_tools_proxy.domain.fast_dataclass import dataclass


class Label(StrEnum):
    """An effect of a tool, in ``labels.json`` and in policies (``label:sends``)."""

    READS_PRIVATE = "reads_private"
    """Reads data that strangers should not receive."""
    READS_UNTRUSTED = "reads_untrusted"
    """Reads text that strangers can write."""
    WRITES = "writes"
    SENDS = "sends"
    """Sends data to others."""
    DESTRUCTIVE = "destructive"


ALL_LABELS = frozenset(Label)
"""The labels of a tool without an entry in ``labels.json``."""

READING_LABELS = frozenset((Label.READS_PRIVATE, Label.READS_UNTRUSTED))

CHANGING_LABELS = ALL_LABELS - READING_LABELS
"""Labels that a read-only run does not allow."""

MAX_TASK_CHARS = 16_384
"""Maximum characters of one task text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The run of a request: its id, and the declarations of the runtime.

    ``task`` is the user's words. ``tools`` are declared names, None for no declaration. Later
    requests can only narrow ``tools`` and ``read_only``.
    """

    run_id: str
    task: str | None = None
    tools: frozenset[str] | None = None
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLabels:
    """The labels of a tool, its target arguments, and the identifiers in its results.

    ``targets`` names the arguments that say where data goes, None for all. ``identifiers`` and
    ``claimed`` are paths in structured results; strangers can write the values of the second.
    """

    labels: frozenset[Label] = ALL_LABELS
    targets: frozenset[str] | None = None
    identifiers: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuota:
    """Limits of one run; 0 means unlimited.

    ``repeats`` are calls with the tool and arguments of an earlier one; at the limit only these are
    stopped. ``tokens`` are those of results, so the last call may exceed the limit.
    """

    calls: int = 0
    tokens: int = 0
    errors: int = 0
    repeats: int = 0

    def within(self, other: "RunQuota") -> "RunQuota":
        """Return the smaller limits of both."""

        def smaller(one: int, two: int) -> int:
            return min(one, two) if one and two else one or two

        return RunQuota(
            calls=smaller(self.calls, other.calls),
            tokens=smaller(self.tokens, other.tokens),
            errors=smaller(self.errors, other.errors),
            repeats=smaller(self.repeats, other.repeats),
        )


NO_QUOTA = RunQuota()

UNLABELLED = ToolLabels()
"""The labels of a downstream tool without an entry."""
