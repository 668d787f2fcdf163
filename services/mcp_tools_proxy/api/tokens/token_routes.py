"""The routes of bearer tokens (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.openapi.answer_models import ErrorEnvelope
from mcp_tools_proxy.api.openapi.examples import TOKEN_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import (
    SHARED_ANSWERS,
    Answer,
    SharedAnswer,
    show_responses,
)
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.api.tokens.token_handlers import TokenHandlers
from mcp_tools_proxy.api.tokens.token_models import (
    NewToken,
    TokenItem,
    TokenQuery,
    TokensAnswer,
    TokensQuery,
    TokenWanted,
)
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.web.fast_routes import DirectRoute

PATH = "/internal/mcp/tokens"

_READ_ONLY = SharedAnswer(
    "TokensNotChanged",
    Answer(
        "CONFIG_READ_ONLY: the tokens file is not writable. QUOTA_EXCEEDED: the tenant's token "
        "quota would be exceeded.",
        ErrorEnvelope,
    ),
)
_NO_TOKEN = SharedAnswer(
    "NoSuchToken",
    Answer("NOT_FOUND: no such token, or the request's token may not revoke it.", ErrorEnvelope),
)


def token_routes(build: RouteBuilder, tokens: TokenHandlers) -> Sequence[DirectRoute]:
    """Build the routes; each needs the operator right ``tokens``."""
    return (
        build.get(
            PATH,
            tokens.list_tokens,
            operation_id="list_tokens",
            tag=Tag.TOKENS,
            summary="List bearer tokens",
            description=(
                "Lists tokens whose permissions do not exceed those of the request's token, "
                "newest first and without secrets. Requires the operator right `tokens`. Only "
                "with `auth_mode` token."
            ),
            query=TokensQuery,
            responses=show_responses(TokensAnswer, "The tokens."),
            headers=TRACED,
            needs_token=True,
        ),
        build.with_body(
            "POST",
            PATH,
            tokens.create,
            TokenWanted,
            operation_id="create_token",
            tag=Tag.TOKENS,
            examples=TOKEN_EXAMPLES,
            summary="Create a bearer token",
            description=(
                "The token is shown only in this response. It is valid at once on this replica, "
                "and within a second on others that read the same file. Its tenant, user, roles, "
                "agents, documents and rights cannot exceed those of the request's token. "
                "Requires the operator right `tokens`. Only with `auth_mode` token."
            ),
            responses={
                **show_responses(NewToken, "The new token, shown only now, and its scope."),
                409: _READ_ONLY,
                413: SHARED_ANSWERS[413],
            },
            headers=TRACED,
            needs_token=True,
            right=OperatorRight.TOKENS,
        ),
        build.change(
            "DELETE",
            PATH,
            tokens.revoke,
            operation_id="revoke_token",
            tag=Tag.TOKENS,
            summary="Revoke a bearer token",
            description=(
                "The token is refused at once on this replica, and within a second on others "
                "that read the same file. Its permissions must not exceed those of the request's "
                "token; a token can revoke itself. Requires the operator right `tokens`. Only "
                "with `auth_mode` token."
            ),
            query=TokenQuery,
            responses={
                **show_responses(TokenItem, "The revoked token."),
                404: _NO_TOKEN,
                409: _READ_ONLY,
            },
            headers=TRACED,
        ),
    )
