"""Shows the remainder of a tenant's budgets without charging them."""

from typing import Annotated

from pydantic import BaseModel, Field

from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Caller
from mcp_tools_proxy.domain.components import DOCUMENT_ARGUMENT
from mcp_tools_proxy.domain.errors import Forbidden, InvalidRequest
from mcp_tools_proxy.domain.identity import AssertedIdentity, OperatorRight
from mcp_tools_proxy.gateway.call_checks import charged_call
from mcp_tools_proxy.http.api.answer_models import AnswerModel, or_error
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.models import Name
from mcp_tools_proxy.http.api.openapi import CALLER_HEADERS, ERRORS_ARE_OK, Tag
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.api.schemas import open_names
from mcp_tools_proxy.ratelimit.limiter import Limiter
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.wire.identifiers import Identifier


class LimitsQuery(BaseModel):
    """Query of GET /internal/mcp/limits: the call whose budgets are shown."""

    tenant_id: Annotated[
        Identifier | None,
        Field(
            description=(
                "The tenant of the call. Default: the caller's; another tenant requires the "
                "operator right `audit`."
            )
        ),
    ] = None
    user_id: Annotated[
        Identifier | None, Field(description="The user of the call. Default: the caller.")
    ] = None
    agent: Annotated[
        Identifier | None, Field(description="The agent of the call. Default: the caller's.")
    ] = None
    tool: Annotated[
        Name | None,
        Field(
            description=(
                "The tool of the call, by a name that `execute` accepts. If omitted, budgets of "
                "single tools and servers are not shown."
            )
        ),
    ] = None
    doc_id: Annotated[Identifier | None, Field(description="The document named in the call.")] = (
        None
    )


LimitUnit = Annotated[str, open_names("LimitUnit", "Unit of a budget.", ["calls", "tokens"])]


class LimitAnswer(AnswerModel, title="Limit"):
    """The remainder of a budget. If ``reset_s`` is 0, nothing has been charged to it."""

    name: str
    unit: LimitUnit
    limit: int
    remaining: int
    reset_s: int
    window_s: int


class LimitsAnswer(AnswerModel, title="LimitList"):
    """The budgets that a call would be charged to."""

    limits: list[LimitAnswer]


LimitsOrError = or_error(LimitsAnswer, "LimitListResponse", "The budgets, or an error.")


class LimitRoutes(Feature):
    """Shows budgets of the caller's tenant, and of others to operators."""

    tag = Tag.STATUS

    def __init__(
        self,
        callers: CallerResolver,
        gate: OperatorGate,
        registry: RegistryHolder,
        limiter: Limiter,
    ) -> None:
        self._callers = callers
        self._gate = gate
        self._registry = registry
        self._limiter = limiter

    @operation(
        "GET",
        "/internal/mcp/limits",
        f"The budgets of the call. {ERRORS_ARE_OK}",
        model=LimitsOrError,
        headers=CALLER_HEADERS,
    )
    async def list_limits(self, parsed: ParsedRequest[None], query: LimitsQuery) -> LimitsAnswer:
        """Show the remaining budgets of a call.

        Charges nothing. Shows the caller's own tenant. Another tenant, user or agent requires the
        operator right `audit`.
        """
        caller = await self._caller(parsed, query)
        readings = await self._limiter.peek(self._charged(caller, query, parsed.trace_id))
        return LimitsAnswer(limits=[LimitAnswer.model_validate(it.as_json) for it in readings])

    async def _caller(self, parsed: ParsedRequest[None], query: LimitsQuery) -> Caller:
        """Return the caller of the described call; one other than the sender needs the right AUDIT.

        Raises InvalidRequest for a request without a tenant, Unauthenticated, Forbidden.
        """
        asserted = AssertedIdentity(
            tenant_id=query.tenant_id, user_id=query.user_id, agent=query.agent
        )
        try:
            caller = await self._callers.resolve(parsed.request.scope, asserted)
        except Forbidden:
            if query.tenant_id is None:
                raise
            await self._gate.check(parsed, OperatorRight.AUDIT, tenant_id=query.tenant_id)
            caller = Caller(
                tenant_id=query.tenant_id, user_id=query.user_id or "", agent=query.agent
            )
        if caller.tenant_id == NO_TENANT:
            raise InvalidRequest("tenant_id: is missing", details={"field": "tenant_id"})
        return caller

    def _charged(self, caller: Caller, query: LimitsQuery, trace_id: str) -> ChargedCall:
        if query.tool is None:
            return ChargedCall(caller.tenant_id, caller.user_id, caller.agent, doc_id=query.doc_id)
        arguments = {} if query.doc_id is None else {DOCUMENT_ARGUMENT: query.doc_id}
        call = Call(name=query.tool, caller=caller, trace_id=trace_id, arguments=arguments)
        return charged_call(self._registry.current.resolve(call).spec, call)
