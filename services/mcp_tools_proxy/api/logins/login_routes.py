"""The routes of logins to servers (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.logins.login_handlers import LoginHandlers
from mcp_tools_proxy.api.logins.login_models import (
    LoginQuery,
    LoginsOrError,
    LoginsQuery,
    LoginWanted,
    LogoutOrError,
    SignInOrError,
)
from mcp_tools_proxy.api.openapi.examples import LOGIN_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import SHARED_ANSWERS, login_responses
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.web.fast_routes import DirectRoute

PATH = "/internal/mcp/logins"


def login_routes(build: RouteBuilder, logins: LoginHandlers) -> Sequence[DirectRoute]:
    """Build the routes; each needs a user's JWT, or the operator right ``logins``."""
    return (
        build.get(
            PATH,
            logins.list_logins,
            operation_id="list_logins",
            tag=Tag.LOGINS,
            summary="List logins to servers",
            description=(
                "Users see their own; those of a tenant, or without `tenant_id` those of the "
                "deployment, need the operator right `logins`. Of `auth_mode` jwt alone."
            ),
            query=LoginsQuery,
            responses=login_responses(LoginsOrError, "The logins, without their tokens."),
            headers=TRACED,
            needs_token=True,
        ),
        build.with_body(
            "POST",
            PATH,
            logins.begin,
            LoginWanted,
            operation_id="begin_login",
            tag=Tag.LOGINS,
            examples=LOGIN_EXAMPLES,
            summary="Get the address where the caller signs in to a server",
            description=(
                "It is good for ten minutes, for this user alone, and for one sign-in. Asked again "
                "meanwhile, it is the same. Needs a JWT that names the user."
            ),
            responses={
                **login_responses(SignInOrError, "The address."),
                413: SHARED_ANSWERS[413],
            },
            headers=TRACED,
            needs_token=True,
        ),
        build.change(
            "DELETE",
            PATH,
            logins.end,
            operation_id="end_login",
            tag=Tag.LOGINS,
            summary="Revoke and forget a login to a server",
            description=(
                "Users end their own; those of others, of a tenant, or of the deployment need the "
                "operator right `logins`. Of `auth_mode` jwt alone."
            ),
            query=LoginQuery,
            responses=login_responses(LogoutOrError, "Whether there was one."),
            headers=TRACED,
        ),
    )
