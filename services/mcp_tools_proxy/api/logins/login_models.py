"""Models of the requests and responses of logins.

Their docstrings are part of the OpenAPI document: callers read them.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mcp_tools_proxy.api.openapi.answer_models import AnswerModel, ErrorEnvelope
from mcp_tools_proxy.domain.server_auth import SCOPE_CHARACTER
from mcp_tools_proxy.wire.identifiers import Identifier, server_id_of

ServerId = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(server_id_of)]
Owners = Literal["deployment", "tenant", "user"]
ForField = Annotated[Owners, Field(title="LoginFor", alias="for")]


class LoginsQuery(BaseModel):
    """Query of the logins: whose they are. Without any of them they are the caller's own."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    server_id: ServerId | None = None
    login_for: Annotated[Annotated[Owners, Field(title="LoginFor")] | None, Field(alias="for")] = (
        None
    )
    tenant_id: Identifier | None = None
    user_id: Identifier | None = None


class LoginQuery(LoginsQuery):
    """Query of one login."""

    server_id: ServerId


class LoginWanted(BaseModel):
    """The server to sign in to, and additional scopes."""

    server_id: ServerId
    scopes: Annotated[
        list[Annotated[str, Field(pattern=f"^{SCOPE_CHARACTER}+$", max_length=256)]],
        Field(max_length=64),
    ] = []


class LoginItem(AnswerModel, title="Login"):
    """A login. ``signed_in_at`` is missing if the gateway cannot decrypt it."""

    server_id: str
    login_for: ForField
    tenant_id: str | None = None
    user_id: str | None = None
    signed_in_at: Annotated[str | None, Field(description="RFC 3339, UTC.")] = None


class LoginsAnswer(AnswerModel, title="LoginList"):
    """Existing logins, sorted by server and user, without tokens."""

    logins: list[LoginItem]


LoginsOrError = Annotated[
    LoginsAnswer | ErrorEnvelope,
    Field(title="LoginListResponse", description="The logins, or an error."),
]


class SignInAnswer(AnswerModel, title="SignIn"):
    """The sign-in URL for a browser, and its validity in seconds."""

    url: str
    expires_in_s: int


SignInOrError = Annotated[
    SignInAnswer | ErrorEnvelope,
    Field(title="SignInResponse", description="The URL, or an error."),
]


class LogoutAnswer(AnswerModel, title="Logout"):
    """Whether a login existed. It is now revoked and deleted."""

    removed: bool


LogoutOrError = Annotated[
    LogoutAnswer | ErrorEnvelope,
    Field(title="LogoutResponse", description="Whether a login existed, or an error."),
]
