"""What ``check`` finds in the tokens file."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from mcp_tools_proxy.auth.token_format import TokenEntry, read_lines
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.wire.text import quote


@dataclass(frozen=True, slots=True)
class TokenReport:
    """The tokens of ``auth_mode`` token, and what is wrong with their file."""

    entries: Sequence[TokenEntry] = ()
    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()


def check_tokens(settings: Settings, agents: Container[str]) -> TokenReport:
    """Check the tokens file; a token whose calls all name a missing profile is a warning."""
    path = settings.tokens_file
    if settings.auth_mode != "token" or path is None:
        return TokenReport()
    try:
        read = read_lines(path.read_bytes())
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror}; until it can, all tokens are refused"
        problem = Problem(file="settings", path=variable("tokens_file"), message=reason)
        return TokenReport(problems=[problem])
    return TokenReport(
        entries=read.entries,
        problems=[
            Problem(file=path.name, path=f"line {number}", message=f"is not a valid token: {why}")
            for number, why in read.problems.items()
        ],
        warnings=[
            Problem(
                file=path.name,
                path=f"token {entry.id}",
                message=f"is for agent {quote(agent)}, which is not in agents.json: its calls "
                "fail with AGENT_NOT_FOUND",
            )
            for entry in read.entries
            for agent in sorted(entry.principal.agents or ())
            if agent not in agents
        ],
    )
