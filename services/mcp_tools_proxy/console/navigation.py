"""The parts of the console, and who sees which."""

from dataclasses import dataclass

from mcp_tools_proxy.domain.identity import OperatorRight, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the console; whoever has one of ``rights`` sees it, everybody without any."""

    title: str
    path: str
    rights: frozenset[OperatorRight] = frozenset()

    def is_for(self, operator: Principal) -> bool:
        """Return whether a person can use it."""
        if self.path == TRY_PATH:
            return may_run(operator)
        return not self.rights or bool(self.rights & operator.rights)


def may_run(operator: Principal) -> bool:
    """Return whether a person may run tools: by a right for others, or in the own name."""
    return OperatorRight.RUN in operator.rights or operator.own_name is not None


TRY_PATH = "/console/try"

PARTS = (
    Part(title="Overview", path="/console", rights=frozenset({OperatorRight.AUDIT})),
    Part(title="Servers", path="/console/servers"),
    Part(
        title="Who sees what", path="/console/visibility", rights=frozenset({OperatorRight.AUDIT})
    ),
    Part(title="Try", path=TRY_PATH, rights=frozenset({OperatorRight.RUN})),
    Part(title="Calls", path="/console/calls", rights=frozenset({OperatorRight.AUDIT})),
    Part(title="Documents", path="/console/documents", rights=frozenset({OperatorRight.DOCUMENTS})),
    Part(title="Tokens", path="/console/tokens", rights=frozenset({OperatorRight.TOKENS})),
    Part(title="Limits", path="/console/limits", rights=frozenset({OperatorRight.AUDIT})),
)


def parts_for(operator: Principal) -> list[Part]:
    """Return the parts that a person can use."""
    return [part for part in PARTS if part.is_for(operator)]


def current_part(path: str) -> Part | None:
    """Return the part that a page belongs to."""
    found = [it for it in PARTS if path == it.path or path.startswith(f"{it.path}/")]
    return max(found, key=lambda it: len(it.path), default=None)
