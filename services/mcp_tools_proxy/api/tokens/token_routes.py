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
        "CONFIG_READ_ONLY: the tokens file cannot be written. QUOTA_EXCEEDED: the tenant would "
        "have more tokens than its quota.",
        ErrorEnvelope,
    ),
)
_NO_TOKEN = SharedAnswer(
    "NoSuchToken",
    Answer("NOT_FOUND: there is no such token that the sender may revoke.", ErrorEnvelope),
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
                "Those that may do at most what the token of the request may, the newest first; "
                "no secrets. Needs the operator right `tokens`. Of `auth_mode` token alone."
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
            summary="Make a bearer token",
            description=(
                "It is shown this once, and works at once on this replica, on others that read the "
                "file within a second. Its tenant, user, roles, agents, documents and rights are "
                "at most those of the token of the request. Needs the operator right `tokens`. Of "
                "`auth_mode` token alone."
            ),
            responses={
                **show_responses(NewToken, "The token, this once, and what it is for."),
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
                "It is refused at once on this replica, on others that read the file within a "
                "second. It may do at most what the token of the request may, and may be that. "
                "Needs the operator right `tokens`. Of `auth_mode` token alone."
            ),
            query=TokenQuery,
            responses={
                **show_responses(TokenItem, "What was revoked."),
                404: _NO_TOKEN,
                409: _READ_ONLY,
            },
            headers=TRACED,
        ),
    )
