"""What an entry of mcp.json says of OAuth: the grant, the client, the issuer, the scopes."""

import re
from dataclasses import dataclass, field
from enum import Enum

from mcp_tools_proxy.domain.caller_template import CallerTemplate

DEFAULT_SUBJECT_TOKEN = "access_token"  # noqa: S105 - a name of RFC 8693
"""What a caller's JWT is exchanged as, where the entry does not say."""


SCOPE_CHARACTER = r"[!#-\[\]-~]"
"""What the name of a scope consists of (RFC 6749 §3.3), as a part of a pattern."""


def is_same_issuer(one: str, other: str) -> bool:
    """Return whether two identifiers name one issuer.

    They are compared character by character, but for one slash that is the whole path: Google,
    JumpCloud and servers of the Python SDK 1.x write it in one place and not in the other.
    """
    return one == other or _without_root(one) == _without_root(other)


def _without_root(issuer: str) -> str:
    """Return an issuer without the slash that is its whole path."""
    bare = issuer.removesuffix("/")
    return bare if _ORIGIN.fullmatch(bare) else issuer


_ORIGIN = re.compile(r"[A-Za-z]+://[^/?#]+")


class Grant(Enum):
    """How a token is got."""

    AUTHORIZATION_CODE = "authorization_code"
    """A person has signed in; the login is stored."""
    CLIENT_CREDENTIALS = "client_credentials"
    TOKEN_EXCHANGE = "token_exchange"  # noqa: S105 - a name of RFC 8693
    """The caller's JWT is exchanged at its issuer (RFC 8693)."""
    ID_JAG = "id_jag"
    """The caller's JWT is exchanged for an assertion, which its audience exchanges for a token."""

    @property
    def needs_person(self) -> bool:
        """Whether somebody has to sign in before."""
        return self is Grant.AUTHORIZATION_CODE

    @property
    def needs_jwt(self) -> bool:
        """Whether tokens are got by the JWT of who calls."""
        return self in (Grant.TOKEN_EXCHANGE, Grant.ID_JAG)


class LoginFor(Enum):
    """In whose name a token is got: calls of one tenant or user never use another's."""

    DEPLOYMENT = "deployment"
    TENANT = "tenant"
    USER = "user"

    def mismatch(self, tenant_id: str | None, user_id: str | None) -> tuple[str, bool] | None:
        """Return the part that does not fit such a login, and whether it is missing; else None.

        A tenant's login has a tenant, a user's has both, and no other has one.
        """
        parts = (
            ("tenant", tenant_id, self is not LoginFor.DEPLOYMENT),
            ("user", user_id, self is LoginFor.USER),
        )
        for part, value, is_needed in parts:
            if (value is not None) is not is_needed:
                return part, is_needed
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """What the gateway is known by at an issuer; a template is filled in for each tenant."""

    client_id: str | CallerTemplate | None = None
    client_secret: str | CallerTemplate | None = field(default=None, repr=False)
    metadata_url: str | None = None
    """The address of a client ID metadata document, which is the id where the issuer knows such."""
    name: str | None = None
    """What people are shown at a sign-in."""
    token_endpoint_auth_method: str | None = None
    """How the client authenticates itself; None leaves it to the issuer's metadata."""
    may_register: bool = True
    """Whether the gateway may register itself where there is no id (RFC 7591)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAuth:
    """OAuth towards one server. ``issuer`` and ``resource`` are found out where they are None."""

    grant: Grant = Grant.AUTHORIZATION_CODE
    login_for: LoginFor = LoginFor.DEPLOYMENT
    client: OAuthClient = field(default_factory=OAuthClient)
    idp_client: OAuthClient | None = None
    """The client at the issuer of callers' JWTs (id_jag)."""
    issuer: str | None = None
    resource: str | None = None
    scopes: tuple[str, ...] | None = None
    """The most that is ever requested; None takes what is challenged, where a person sees it."""
    subject_token_type: str = DEFAULT_SUBJECT_TOKEN
    """What a caller's JWT is to the issuer that exchanges it: the last part of RFC 8693's name."""
    knows_pkce: bool = False
    """Whether the operator says that the issuer checks PKCE, which its metadata need not say."""
    redirect_uri: str | None = None
    """Where the command ``login`` listens; None takes a free port of this machine."""
    discovery: "ServerAuth | None" = None
    """By what the server is discovered, if it lets nobody without a token."""
