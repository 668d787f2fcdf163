"""Lists, offers and ends logins to servers (contract §1)."""

from typing import Annotated, Any, Literal

from fastapi import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import Forbidden, IdentityRequired, InvalidRequest
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.logins import LoginAccess, LoginOwner, SignInOffers
from mcp_tools_proxy.domain.server import SCOPE_CHARACTER, LoginFor
from mcp_tools_proxy.http.api.answer_models import AnswerModel, or_error
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.openapi import Examples, Tag
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import Feature, operation, response_of
from mcp_tools_proxy.http.request_refusals import (
    RecordedOperation,
    add_to_operation,
    begin_operation,
)
from mcp_tools_proxy.telemetry.recorder import caller_fields
from mcp_tools_proxy.telemetry.request_events import LOGIN_ENDED, login_fields
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


LoginsOrError = or_error(LoginsAnswer, "LoginListResponse", "The logins, or an error.")


class SignInAnswer(AnswerModel, title="SignIn"):
    """The sign-in URL for a browser, and its validity in seconds."""

    url: str
    expires_in_s: int


SignInOrError = or_error(SignInAnswer, "SignInResponse", "The URL, or an error.")


class LogoutAnswer(AnswerModel, title="Logout"):
    """Whether a login existed. It is now revoked and deleted."""

    removed: bool


LogoutOrError = or_error(LogoutAnswer, "LogoutResponse", "Whether a login existed, or an error.")


PATH = "/internal/mcp/logins"

_OR_ERROR = "If logins cannot be read, the answer is also 200, with status `error`."


_LOGIN_EXAMPLES: Examples = {
    "any sign-in": {"server_id": "notes"},
    "a wider one": {"server_id": "notes", "scopes": ["notes.write"]},
}


class LoginRoutes(Feature):
    """Operations on logins. A user's JWT is enough for their own; others need the right LOGINS.

    ``jwt_issuer`` issues the callers' tokens; None without JWTs. ``access`` is None if logins are
    not stored, ``offers`` without sign-in pages.
    """

    tag = Tag.LOGINS

    def __init__(
        self,
        callers: CallerResolver,
        gate: OperatorGate,
        access: LoginAccess | None,
        offers: SignInOffers | None,
        *,
        jwt_issuer: str | None,
    ) -> None:
        self._callers = callers
        self._gate = gate
        self._access = access
        self._offers = offers
        self._jwt_issuer = jwt_issuer

    @operation(
        "GET",
        PATH,
        f"The logins, without tokens. {_OR_ERROR}",
        model=LoginsOrError,
        needs_token=True,
    )
    async def list_logins(self, parsed: ParsedRequest[None], query: LoginsQuery) -> LoginsAnswer:
        """List logins to servers.

        Users see their own logins. The logins of a tenant, or without `tenant_id` those of the
        deployment, require the operator right `logins`. Only with `auth_mode` jwt.
        """
        access = self._access_of("logins")
        caller = await self._callers.resolve(parsed.request.scope)
        if _is_own(caller, query):
            _begin(parsed, "logins.listed", caller, server_id=query.server_id)
            owned = await access.logins_of(caller.tenant_id, user_id=caller.user_id)
            found = [it for it in owned if _is_of(it.owner, caller)]
        else:
            tenant_id = await self._check_operator(parsed, query)
            owned = await access.logins_of(tenant_id, user_id=query.user_id)
            found = [it for it in owned if query.login_for in (None, it.owner.login_for.value)]
        shown = [it for it in found if query.server_id in (None, it.owner.server_id)]
        return LoginsAnswer(logins=[LoginItem.model_validate(it.shown) for it in shown])

    @operation(
        "POST",
        PATH,
        f"The sign-in URL. {_OR_ERROR}",
        model=SignInOrError,
        examples=_LOGIN_EXAMPLES,
        needs_token=True,
    )
    async def begin_login(self, parsed: ParsedRequest[LoginWanted]) -> Response:
        """Start a sign-in to a server.

        Returns the URL at which the caller signs in. The URL is valid for ten minutes, for this
        user and one sign-in; repeated requests in this time return the same URL. Requires a JWT
        that names the user.
        """
        access, wanted = self._access_of("login"), parsed.body
        caller = await self._callers.resolve(parsed.request.scope)
        if caller.jwt is None:
            raise IdentityRequired(
                "the sign-in pages are for users; send a JWT that names the user",
                details={"part": "user_id"},
            )
        if self._offers is None:
            raise Forbidden(
                "sign-in pages are not configured; an operator can set "
                "MCP_PROXY_SIGNIN_CLIENT_ID, or use mcp-tools-proxy login"
            )
        if not access.is_of_users(wanted.server_id):
            raise InvalidRequest(
                "server_id: users do not sign in to this server; name another one",
                details={"field": "server_id"},
            )
        _begin(parsed, "login.offered", caller, server_id=wanted.server_id)
        offered = await self._offers.offer(
            _owner_of(caller, wanted.server_id), tuple(dict.fromkeys(wanted.scopes))
        )
        answer = SignInAnswer.model_validate(offered)
        return response_of(answer, parsed, headers={"Cache-Control": "no-store"})

    @operation(
        "DELETE",
        PATH,
        f"Whether a login existed. {_OR_ERROR}",
        model=LogoutOrError,
        needs_token=True,
    )
    async def end_login(self, parsed: ParsedRequest[None], query: LoginQuery) -> LogoutAnswer:
        """Revoke and delete a login to a server.

        Users can delete their own logins. The logins of others, of a tenant, or of the deployment
        require the operator right `logins`. Only with `auth_mode` jwt.
        """
        access = self._access_of("logout")
        caller = await self._callers.resolve(parsed.request.scope)
        if _is_own(caller, query):
            owner = _owner_of(caller, query.server_id or "")
            _begin(parsed, LOGIN_ENDED, caller)
        else:
            await self._check_operator(parsed, query)
            owner = self._named_owner(query)
        add_to_operation(parsed.request.scope, LOGIN_ENDED, **login_fields(owner))
        removed = await access.sign_out(owner)
        add_to_operation(parsed.request.scope, removed=removed)
        return LogoutAnswer(removed=removed)

    def _access_of(self, command: str) -> LoginAccess:
        if self._jwt_issuer is None:
            raise Forbidden(
                "logins can be managed here only with auth_mode jwt; use the command "
                f"mcp-tools-proxy {command}"
            )
        if self._access is None:
            raise Forbidden(
                "this gateway cannot store logins; an operator can set MCP_PROXY_CREDENTIALS_KEY"
            )
        return self._access

    async def _check_operator(self, parsed: ParsedRequest[None], query: LoginsQuery) -> str:
        named = query.tenant_id
        await self._gate.check(parsed, OperatorRight.LOGINS, tenant_id=named)
        return named or ""

    def _named_owner(self, query: LoginsQuery) -> LoginOwner:
        login_for = LoginFor(query.login_for or "deployment")
        mismatch = login_for.mismatch(query.tenant_id, query.user_id)
        if mismatch is not None:
            part, is_missing = mismatch
            problem = "is missing" if is_missing else "should be left out"
            raise InvalidRequest(
                f"{part}_id: {problem} for a login of the {login_for.value}",
                details={"field": f"{part}_id"},
            )
        return LoginOwner(
            server_id=query.server_id or "",
            login_for=login_for,
            tenant_id=query.tenant_id or "",
            user_id=query.user_id or "",
            user_issuer=(self._jwt_issuer or "") if login_for is LoginFor.USER else "",
        )


def _begin(
    parsed: ParsedRequest[Any], event: str, caller: Caller, *, server_id: str | None = None
) -> None:
    fields = {**caller_fields(caller), **without_none({"server_id": server_id})}
    begin_operation(parsed.request.scope, RecordedOperation(event, fields))


def _is_own(caller: Caller, query: LoginsQuery) -> bool:
    return (
        caller.jwt is not None
        and caller.tenant_id != NO_TENANT
        and query.login_for in (None, LoginFor.USER.value)
        and query.tenant_id in (None, caller.tenant_id)
        and query.user_id in (None, caller.user_id)
    )


def _owner_of(caller: Caller, server_id: str) -> LoginOwner:
    return LoginOwner(
        server_id=server_id,
        login_for=LoginFor.USER,
        tenant_id=caller.tenant_id,
        user_id=caller.user_id,
        user_issuer="" if caller.jwt is None else caller.jwt.issuer,
    )


def _is_of(owner: LoginOwner, caller: Caller) -> bool:
    return owner == _owner_of(caller, owner.server_id)
