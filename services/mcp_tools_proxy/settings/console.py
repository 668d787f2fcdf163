"""Settings of the console: the pages for the people who run the gateway."""

from typing import Annotated

from pydantic import BeforeValidator

from mcp_tools_proxy.settings.types import EnvironmentSettings, empty_is_unset, starting_with

_Link = Annotated[str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")]


class ConsoleSettings(EnvironmentSettings):
    """Whether there is a console, and where its links to other programs lead."""

    console: bool = False
    """Serve the console, where people look after this gateway in a browser, at ``/console``."""
    console_trace_url: _Link = None
    """Address of a trace in your trace viewer, with ``{trace_id}`` where its id belongs; the
    console links calls to it."""
    console_dashboard_url: _Link = None
    """Address of the dashboard of all replicas, which the console links to."""
