"""Checks the operator right that each operation needs."""

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.requests import Request

from mcp_tools_proxy.auth.authenticator import Authenticator, bearer_token, proven_of
from mcp_tools_proxy.auth.caller_resolver import read_headers
from mcp_tools_proxy.domain.errors import Forbidden, Unauthenticated
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.request_refusals import RecordedOperation, begin_operation
from mcp_tools_proxy.wire.identifiers import is_loopback

TOKEN_VARIABLE = "MCP_PROXY_ADMIN_TOKEN"  # noqa: S105 - the variable's name, not a token

LOCAL = Principal(
    tenant_id=None,
    rights=frozenset({OperatorRight.PRESETS}),
    token_log_fields={"token_id": "(loopback)"},
)
"""The principal of requests without a token to a service on a loopback address."""


class OperatorGate:
    """Admits senders with the right that an operation needs; each use of a right is recorded.

    If callers need tokens (``auth_mode`` token or jwt), the token must have the right. With
    ``auth_mode`` none, the admin token has every right. Without an admin token, every caller of a
    service on a loopback address may switch presets.
    """

    def __init__(self, *, host: str, authenticator: Authenticator) -> None:
        self._operators = authenticator.operators
        self._on_loopback = is_loopback(host)
        self._authenticator = authenticator

    def needs_token(self, right: OperatorRight) -> bool:
        """Return whether ``right`` needs a token."""
        if right is not OperatorRight.PRESETS:
            return True
        return self._operators.admin is not None or self._authenticator.needs_token

    async def identify(self, token: str) -> Principal:
        """Return the operator of a bearer token. Raises Unauthenticated."""
        principal = await self._authenticator.authenticate(f"Bearer {token}")
        found = principal or self._operators.find(token)
        if found is None:
            raise Unauthenticated("the token is not known here", token_refused=True)
        return found

    async def check(
        self, parsed: ParsedRequest[object], right: OperatorRight, *, tenant_id: str | None = None
    ) -> Principal:
        """Return the sender after checking that they have ``right`` for the operation's tenant.

        An operation without ``tenant_id`` concerns all tenants. Raises InvalidRequest,
        Unauthenticated, Forbidden.
        """
        principal = await self.admit(parsed, right, tenant_id=tenant_id)
        _begin(parsed, principal, right, tenant_id)
        return principal

    async def admit(
        self, parsed: ParsedRequest[object], right: OperatorRight, *, tenant_id: str | None = None
    ) -> Principal:
        """Check as ``check``, but without a record.

        For work that continues after its request, which ``check`` has recorded.
        """
        principal = await self._sender(parsed.request, right)
        _check_right(principal, right, tenant_id)
        return principal

    async def check_explain(
        self, parsed: ParsedRequest[object], *, tenant_id: str | None
    ) -> Principal:
        """Return the sender, checked for the right to have a call of the tenant explained.

        That needs AUDIT, or no token if switching presets needs none, as an explanation shows the
        effect of a preset. Raises as ``check``.
        """
        if await self._is_local(parsed.request):
            _begin(parsed, LOCAL, OperatorRight.AUDIT, tenant_id)
            return LOCAL
        return await self.check(parsed, OperatorRight.AUDIT, tenant_id=tenant_id)

    async def _is_local(self, request: Request) -> bool:
        try:
            return await self._sender(request, OperatorRight.PRESETS) is LOCAL
        except Forbidden:
            return False

    async def before_explain(self, request: Request) -> None:
        """Check the sender before the body of a request to explain is read."""
        if not await self._is_local(request):
            await self._sender(request, OperatorRight.AUDIT)

    async def check_own(
        self, parsed: ParsedRequest[object], right: OperatorRight, *, tenant_id: str | None = None
    ) -> Principal:
        """Return the sender, checked for ``right`` within the scope of their token.

        Like ``check``, but without ``tenant_id`` the operation is limited to the token's tenant;
        the handler enforces that.
        """
        principal = await self._sender(parsed.request, right)
        tenant_id = tenant_id or principal.tenant_id
        _check_right(principal, right, tenant_id)
        _begin(parsed, principal, right, tenant_id)
        return principal

    def before_body(self, right: OperatorRight) -> Callable[[Request], Awaitable[object]]:
        """Return the check of a sender before the body of a request is read.

        Without it, an invalid admin token with an invalid body was INVALID_REQUEST, as the body was
        parsed.
        """

        async def check(request: Request) -> None:
            await self._sender(request, right)

        return check

    async def _sender(self, request: Request, right: OperatorRight) -> Principal:
        headers = request.headers
        authorization, _ = read_headers(headers.raw)
        principal = await self._authenticator.authenticate(authorization)
        if principal is None:
            principal = self._unauthenticated(headers, bearer_token(authorization), right)
        return principal

    def _unauthenticated(
        self, headers: Headers, presented: str | None, right: OperatorRight
    ) -> Principal:
        found = None if presented is None else self._operators.find(presented)
        if found is not None:
            return found
        if self._operators.admin is None:
            self._check_local(headers, right)
            return LOCAL
        raise Unauthenticated(
            "this needs the admin token; send Authorization: Bearer <admin token>",
            token_refused=presented is not None,
        )

    def _check_local(self, headers: Headers, right: OperatorRight) -> None:
        if not self._on_loopback:
            raise Forbidden(
                f'the operator right "{right}" is unavailable: this service can be reached from '
                f"other machines and has no admin token; an operator can set {TOKEN_VARIABLE}"
            )
        if right not in LOCAL.rights:
            raise Forbidden(
                f'the operator right "{right}" needs a token; an operator can set {TOKEN_VARIABLE}'
            )
        if "origin" in headers:  # any web page can make a browser send this
            raise Forbidden(
                f'a browser needs a token with the operator right "{right}"; an operator can set '
                f"{TOKEN_VARIABLE}"
            )


def _begin(
    parsed: ParsedRequest[object],
    principal: Principal,
    right: OperatorRight,
    tenant_id: str | None,
) -> None:
    begin_operation(
        parsed.request.scope,
        RecordedOperation.by_right(right, tenant_id, principal.token_log_fields),
    )


def _check_right(principal: Principal, right: OperatorRight, tenant_id: str | None) -> None:
    if refusal := _refusal(principal, right, tenant_id):
        refusal.proven = proven_of(principal)
        raise refusal


def _refusal(principal: Principal, right: OperatorRight, tenant_id: str | None) -> Forbidden | None:
    """Return why ``principal`` cannot use ``right``, if so."""
    if right not in principal.rights:
        return Forbidden(
            f'the token does not have the operator right "{right}"; send a token that has it'
        )
    if right is OperatorRight.PRESETS:  # presets are common to all tenants
        return None
    if principal.tenant_id not in (None, tenant_id):
        return Forbidden(
            f'the token has the operator right "{right}" for its own tenant only; name that '
            "tenant, or send a token that belongs to no tenant"
        )
    return None
