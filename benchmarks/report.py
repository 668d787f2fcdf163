"""Results as Markdown: tables of what was measured, and of each target beside it."""

import platform
from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What must not be exceeded, in the unit that both texts name."""

    name: str
    limit: float
    measured: float
    unit: str
    how: str = ""
    """Where the limit comes from."""

    @property
    def met(self) -> bool:
        """Whether it is not exceeded."""
        return self.measured <= self.limit


@dataclass(slots=True)
class Result:
    """What one experiment found."""

    title: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """Render the experiment's section."""
        parts = [f"## {self.title}", table(self.header, self.rows), *self.notes]
        if self.targets:
            parts.append(self._target_table())
        return "\n\n".join(parts)

    def _target_table(self) -> str:
        return table(
            ("target", "at most", "measured", "met"),
            [
                (
                    target.name,
                    f"{target.limit:.3g} {target.unit}" + f" ({target.how})" * bool(target.how),
                    f"{target.measured:.3g} {target.unit}",
                    "yes" if target.met else "NO",
                )
                for target in self.targets
            ],
        )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Render a Markdown table that is readable as it is."""
    widths = [max(len(row[n]) for row in (header, *rows)) for n in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join((line(header), rule, *map(line, rows)))


def facts() -> str:
    """Name the machine and the versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{cpu_count()} cores; {versions}"
    )


def load_average() -> str:
    """Return the machine's load of the last minute."""
    return f"{getloadavg()[0]:.2f}"
