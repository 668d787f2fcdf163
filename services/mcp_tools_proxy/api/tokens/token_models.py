"""Models of the requests and responses of bearer tokens.

Their docstrings are part of the OpenAPI document: operators read them.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from mcp_tools_proxy.api.openapi.answer_models import AnswerModel
from mcp_tools_proxy.auth.token_format import ID_PATTERN, MAX_ROLES
from mcp_tools_proxy.domain.identity import OperatorRight, Principal, roles_of
from mcp_tools_proxy.wire.identifiers import CONTROL_CHARACTERS, MAX_DOCUMENTS, Identifier

MAX_TOKENS = 1000
"""Tokens in one answer at most."""

MAX_AGENTS = 1000
"""Agents of one token that is made by request."""


class TokensQuery(BaseModel):
    """Query of the tokens."""

    model_config = ConfigDict(extra="forbid")

    tenant_id: Annotated[
        Identifier | None,
        Field(
            description=(
                "Tenant whose tokens are listed. Default: all that the request's token may see."
            )
        ),
    ] = None
    token_id: Annotated[
        str | None, Field(description="Only the token with this `id`.", pattern=ID_PATTERN)
    ] = None
    cursor: Annotated[
        str | None,
        Field(
            description="The `next_cursor` of the previous page.",
            pattern=r"^[0-9]{12}\.[A-Za-z0-9_.-]{1,64}$",
        ),
    ] = None
    limit: Annotated[
        int, Field(ge=1, le=MAX_TOKENS, description=("Maximum number of tokens to return."))
    ] = 100


class TokenQuery(BaseModel):
    """Query that names one token."""

    model_config = ConfigDict(extra="forbid")

    token_id: Annotated[str, Field(description="The token's `id`, as listed.", pattern=ID_PATTERN)]


class TokenWanted(BaseModel):
    """The scope of a new token; without a tenant it is an operator's token, with `rights`.

    `agents` and `documents` limit the token; by default it is not limited. An empty list of
    documents (`[]`) allows none. `expires` is a duration (`12h`, `90d`, `4w`) or an ISO 8601
    time; by default the token never expires.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    """A field whose name is misspelt would widen the token."""

    tenant_id: Identifier | None = None
    user_id: Identifier | None = None
    roles: Annotated[list[Identifier], Field(fail_fast=True, max_length=MAX_ROLES)] = []
    asserts_users: Annotated[
        bool, Field(description="Trust the user and roles stated in each request; for services.")
    ] = False
    agents: (
        Annotated[list[Identifier], Field(fail_fast=True, min_length=1, max_length=MAX_AGENTS)]
        | None
    ) = None
    documents: (
        Annotated[list[Identifier], Field(fail_fast=True, max_length=MAX_DOCUMENTS)] | None
    ) = None
    rights: Annotated[
        list[Annotated[OperatorRight, Field(strict=False)]], Field(fail_fast=True)
    ] = []
    expires: Annotated[str, Field(max_length=64)] | None = None
    note: Annotated[
        str, StringConstraints(max_length=1000, pattern=rf"^[^{CONTROL_CHARACTERS}]*$")
    ] = ""

    @property
    def principal(self) -> Principal:
        """What the token proves and allows."""
        return Principal(
            tenant_id=self.tenant_id,
            user_id=self.user_id,
            roles=roles_of(self.roles),
            asserts_users=self.asserts_users,
            agents=None if self.agents is None else frozenset(self.agents),
            documents=None if self.documents is None else frozenset(self.documents),
            rights=frozenset(self.rights),
        )


class TokenItem(AnswerModel, title="Token"):
    """A token without its secret. `agents` and `documents` are missing if it is not limited to any.

    `created` is missing if the time is unknown, `expires` if the token never expires.
    """

    id: str
    tenant_id: str | None = None
    user_id: str | None = None
    roles: list[str]
    asserts_users: bool
    agents: list[str] | None = None
    documents: list[str] | None = None
    rights: Annotated[list[str], Field(description="Operator rights, such as `audit`.")]
    created: Annotated[str | None, Field(description="ISO 8601, with a time zone.")] = None
    expires: Annotated[str | None, Field(description="ISO 8601, with a time zone.")] = None
    is_expired: bool
    expires_soon: Annotated[bool, Field(description="Whether the token expires within 7 days.")]
    note: str


class NewToken(TokenItem, title="NewToken"):
    """A created token; `token` is shown only once.

    `warnings` names agents of the token that have no profile: calls with them are refused.
    """

    token: str
    warnings: list[str] | None = None


class TokensAnswer(AnswerModel, title="TokenList"):
    """Tokens whose permissions do not exceed your own, newest first.

    ``problems`` lists invalid lines of the file. They are on the first page and only for
    operators without a tenant.
    """

    tokens: list[TokenItem]
    next_cursor: Annotated[
        str | None, Field(description="The `cursor` of the next page, if there is one.")
    ] = None
    problems: list[str] | None = None
