"""Settings of the console: the pages for the people who run the gateway."""

from typing import Annotated

from pydantic import BeforeValidator

from mcp_tools_proxy.settings.types import EnvironmentSettings, empty_is_unset, starting_with

_Link = Annotated[str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")]


class ConsoleSettings(EnvironmentSettings):
    """Whether there is a console, and where its links to other programs lead."""

    console: bool = False
    """Serve the operators' console at ``/console``."""
    console_trace_url: _Link = None
    """URL of a trace in your trace viewer, with ``{trace_id}`` as a placeholder. The console links
    calls to it."""
    console_dashboard_url: _Link = None
    """URL of the dashboard of all replicas. The console links to it."""
