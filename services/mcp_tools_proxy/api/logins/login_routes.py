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
                "Users see their own logins. The logins of a tenant, or without `tenant_id` "
                "those of the deployment, require the operator right `logins`. Only with "
                "`auth_mode` jwt."
            ),
            query=LoginsQuery,
            responses=login_responses(LoginsOrError, "The logins, without tokens."),
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
            summary="Start a sign-in to a server",
            description=(
                "Returns the URL at which the caller signs in. The URL is valid for ten minutes, "
                "for this user and one sign-in; repeated requests in this time return the same "
                "URL. Requires a JWT that names the user."
            ),
            responses={
                **login_responses(SignInOrError, "The sign-in URL."),
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
            summary="Revoke and delete a login to a server",
            description=(
                "Users can delete their own logins. The logins of others, of a tenant, or of the "
                "deployment require the operator right `logins`. Only with `auth_mode` jwt."
            ),
            query=LoginQuery,
            responses=login_responses(LogoutOrError, "Whether a login existed."),
            headers=TRACED,
        ),
    )
