"""Lists, offers and ends logins to servers (contract §1)."""

from typing import Any, TypeVar

from fastapi import Response

from mcp_tools_proxy.api.endpoint import ParsedRequest, single_values, validate
from mcp_tools_proxy.api.logins.login_models import LoginQuery, LoginsQuery, LoginWanted
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import Forbidden, IdentityRequired, InvalidRequest
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.logins import LoginAccess, LoginOwner
from mcp_tools_proxy.domain.server_auth import LoginFor
from mcp_tools_proxy.domain.sign_in_pages import SignInOffers
from mcp_tools_proxy.telemetry.change_events import LOGIN_ENDED, login_fields
from mcp_tools_proxy.telemetry.recorder import caller_fields
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.request_refusals import (
    RecordedOperation,
    add_to_operation,
    begin_operation,
)
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

QueryT = TypeVar("QueryT", bound=LoginsQuery)


class LoginHandlers:
    """Handlers of logins: a JWT that names a user is for hers, all others need the right LOGINS.

    ``jwt_issuer`` is that of callers' tokens, None where they have none; ``access`` is None where
    no logins are kept, ``offers`` where there are no pages.
    """

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

    async def list_logins(self, parsed: ParsedRequest[None]) -> Response:
        """List the caller's own logins, or those that an operator names."""
        access, query = self._access_of("logins"), _query(LoginsQuery, parsed)
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
        content = {"logins": [without_none(it.shown) for it in shown]}
        return json_response(content, headers={TRACE_HEADER: parsed.trace_id})

    async def begin(self, parsed: ParsedRequest[LoginWanted]) -> Response:
        """Return the address where the caller signs in to a server."""
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
        content = {"url": offered.url, "expires_in_s": offered.expires_in_s}
        headers = {TRACE_HEADER: parsed.trace_id, "Cache-Control": "no-store"}
        return json_response(content, headers=headers)

    async def end(self, parsed: ParsedRequest[None]) -> Response:
        """Revoke and forget one login."""
        access, query = self._access_of("logout"), _query(LoginQuery, parsed)
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
        content = {"removed": removed}
        return json_response(content, headers={TRACE_HEADER: parsed.trace_id})

    def _access_of(self, command: str) -> LoginAccess:
        """Return the logins. Raises Forbidden where they are looked after by commands alone."""
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
        """Check the operator's right for whose logins are named; return the tenant, "" for none."""
        named = query.tenant_id
        await self._gate.check(parsed, OperatorRight.LOGINS, tenant_id=named)
        return named or ""

    def _named_owner(self, query: LoginsQuery) -> LoginOwner:
        """Return whose login is named. Raises InvalidRequest."""
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
    """Begin what the record of a user's own request has; an operator's is the gate's."""
    fields = {**caller_fields(caller), **without_none({"server_id": server_id})}
    begin_operation(parsed.request.scope, RecordedOperation(event, fields))


def _query(model: type[QueryT], parsed: ParsedRequest[None]) -> QueryT:
    return validate(model, single_values(parsed.request.query_params))


def _is_own(caller: Caller, query: LoginsQuery) -> bool:
    """Return whether a query is of the caller's own logins, who is proven to be a user."""
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
