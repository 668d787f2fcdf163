"""Results as Markdown tables with measurements and targets."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from os import cpu_count, getloadavg

_PACKAGES = (
    "uvicorn",
    "fastapi",
    "starlette",
    "pydantic",
    "uvloop",
    "httptools",
    "tantivy",
    "aiohttp",
    "mcp",
)


VERDICTS = ("NO", "not resolved", "yes")
"""Verdicts, missed targets first."""

_TARGET_HEADER = ("target", "at most", "measured", "95 % interval", "met")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An upper limit in a unit."""

    name: str
    limit: float
    measured: float
    unit: str
    how: str = ""
    """Origin of the limit."""
    interval: tuple[float, float] | None = None
    """95 % confidence interval, if measured repeatedly."""

    @property
    def verdict(self) -> str:
        """Whether the limit holds; "NO" if the whole interval is above it."""
        falls_short, not_resolved, holds = VERDICTS
        low, high = self.interval or (self.measured, self.measured)
        if low > self.limit:
            return falls_short
        margin = (abs(self.limit - 1) if self.unit == "x" else 0) or self.limit
        return not_resolved if high > self.limit and high - low > margin / 2 else holds

    @property
    def cells(self) -> Sequence[str]:
        """Row in the table of targets."""
        return (
            self.name,
            f"{self.limit:.3g} {self.unit}" + f" ({self.how})" * bool(self.how),
            f"{self.measured:.3g} {self.unit}",
            "-" if self.interval is None else "{:.3g}-{:.3g}".format(*self.interval),
            self.verdict,
        )


@dataclass(slots=True)
class Result:
    """The result of one experiment."""

    title: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """Render the experiment's section."""
        parts = [f"## {self.title}", table(self.header, self.rows), *self.notes]
        if self.targets:
            rows = [target.cells for target in sorted(self.targets, key=_order)]
            parts.append(table(_TARGET_HEADER, rows))
        return "\n\n".join(parts)


def summary(results: Mapping[str, Result]) -> str:
    """Render a table with the targets of all experiments, missed ones first."""
    targets = [(name, target) for name, result in results.items() for target in result.targets]
    targets.sort(key=lambda entry: _order(entry[1]))
    rows = [(name, *target.cells) for name, target in targets]
    return f"## All targets\n\n{table(('experiment', *_TARGET_HEADER), rows)}"


def _order(target: Target) -> int:
    return VERDICTS.index(target.verdict)


def at_connections(count: int) -> str:
    """Return the part of a target's name for the number of concurrent calls."""
    return f"at {count} connection{'s' * (count > 1)}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Render a Markdown table with aligned columns."""
    widths = [max(len(row[n]) for row in (header, *rows)) for n in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join((line(header), rule, *map(line, rows)))


def facts() -> str:
    """Return the machine and the versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{cpu_count()} cores; {versions}"
    )


def load_average() -> str:
    """Return the load average of the last minute."""
    return f"{getloadavg()[0]:.2f}"
