"""The configuration files as a whole, and what can be wrong with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from mcp_tools_proxy.domain.server import ServerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong in a configuration file.

    ``path`` is a JSON path (``$.mcpServers.notes.url``), ``$`` for the whole file. The message
    never quotes a value that may be secret.
    """

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.path}: {self.message}"


class InvalidConfig(Exception):
    """A configuration file cannot be used; ``problems`` has all that is wrong with it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What ``mcp.json`` says; the default is that of a missing file."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict)
    default_preset_id: str | None = None
    exclude: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Server id → spellings of what nobody may see of it (A-01); not part of its ServerConfig,
    so that a session outlives a change of it."""
    warnings: tuple[Problem, ...] = ()
    """What is odd but does no harm: unknown keys, ``{VAR}`` left as it is."""
    invalid: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    """Server id → what is wrong with its entry. ``servers`` has its last good one, if any."""
    order: tuple[str, ...] = ()
    """The ids of all servers of the file, in its order."""

    @property
    def server_ids(self) -> frozenset[str]:
        """The ids of all servers, also of those whose entry is wrong."""
        return frozenset((*self.servers, *self.invalid))

    def with_last_good(self, before: Self) -> Self:
        """Give it with the last good entry of each server whose entry is wrong now."""
        kept = {it for it in self.invalid if it in before.servers and it not in self.servers}
        if not kept:
            return self
        servers = {**self.servers, **{it: before.servers[it] for it in kept}}
        exclude = {it: before.exclude[it] for it in kept if it in before.exclude}
        return replace(
            self,
            servers={it: servers[it] for it in self.order if it in servers},
            exclude={**self.exclude, **exclude},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetSummary:
    """One preset that could be chosen."""

    preset_id: str
    name: str
