"""Refuses an operator's call where the server would be given something of who is stood in for."""

from mcp_tools_proxy.domain.caller_template import withheld_from_stand_in
from mcp_tools_proxy.domain.errors import LoginRequired
from mcp_tools_proxy.domain.oauth.server_auth import LoginFor
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.callers.text_filler import templates_of


def check_stand_in(config: ServerConfig) -> None:
    """Check that a server works without anything of its callers, before a session is opened.

    A session would begin a process without the variables that it needs. What goes with a call, as
    bound arguments and ``forward``, is refused where it is filled in. Raises LoginRequired for the
    login of a tenant or user, CredentialsMissing for all else.
    """
    auth, texts = config.auth, config.caller_texts
    if auth is not None and auth.login_for is not LoginFor.DEPLOYMENT:
        if not auth.grant.needs_person:
            raise withheld_from_stand_in("auth")
        raise LoginRequired(
            f"server {config.server_id} needs the login of a {auth.login_for.value}, which is "
            "never used when an operator acts for the user; the user has to make this call",
            details={"server_id": config.server_id},
        )
    if config.assertion is not None:
        raise withheld_from_stand_in("assertion")
    if texts is not None and any(it.caller_parts for it in templates_of(texts)):
        raise withheld_from_stand_in("part of the caller")
