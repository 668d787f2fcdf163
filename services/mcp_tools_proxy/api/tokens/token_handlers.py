"""Lists, makes and revokes bearer tokens, for operators (contract §1)."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

from fastapi import Response

from mcp_tools_proxy.api.endpoint import ParsedRequest, single_values, validate
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.api.tokens.token_models import TokenQuery, TokensQuery, TokenWanted
from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier
from mcp_tools_proxy.auth.token_format import (
    TokenEntry,
    contradiction_of,
    parse_expiry,
    token_facts,
)
from mcp_tools_proxy.auth.token_store import (
    MAX_ENTRY_BYTES,
    TokenTooLarge,
    UnknownToken,
    add_token,
    revoke_token,
)
from mcp_tools_proxy.domain.errors import (
    ConfigReadOnly,
    Forbidden,
    InvalidRequest,
    NoSuchTokenHere,
)
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.policy.token_limits import excess_of
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER
from mcp_tools_proxy.wire.text import quote


class TokenHandlers:
    """Handlers of tokens; all need the right TOKENS, and concern what the sender's token may do.

    ``tokens`` is None where callers do not prove themselves by the tokens file. ``agents`` returns
    the agents that have a profile, None while that cannot be known.
    """

    def __init__(
        self,
        gate: OperatorGate,
        tokens: TokenFileVerifier | None,
        agents: Callable[[], Collection[str] | None],
        quota: Quota,
    ) -> None:
        self._gate = gate
        self._tokens = tokens
        self._agents = agents
        self._quota = quota

    async def list_tokens(self, parsed: ParsedRequest[None]) -> Response:
        """List the tokens that may do at most what the sender's may."""
        tokens = self._file_of("list")
        query = validate(TokensQuery, single_values(parsed.request.query_params))
        holder = await self._gate.check_own(parsed, OperatorRight.TOKENS, tenant_id=query.tenant_id)
        # 10,000 tokens take 40 ms
        answer = await asyncio.to_thread(_page, list(tokens.entries), holder, query)
        if (holder.tenant_id, query.tenant_id, query.cursor) == (None, None, None):
            answer |= {"problems": tokens.problems} if tokens.problems else {}
        return json_response(answer, headers={TRACE_HEADER: parsed.trace_id})

    async def create(self, parsed: ParsedRequest[TokenWanted]) -> Response:
        """Create a token and show it, this once; it is good here before the answer."""
        tokens, wanted = self._file_of("create"), parsed.body
        holder = await self._gate.check_own(
            parsed, OperatorRight.TOKENS, tenant_id=wanted.tenant_id
        )
        principal = _checked(wanted.principal, holder)
        now = datetime.now(UTC).replace(microsecond=0)
        expires = None if wanted.expires is None else _expiry(wanted.expires, now)
        add_to_operation(
            parsed.request.scope, "token.created", rights_given=sorted(principal.rights)
        )
        add = partial(
            add_token,
            principal=principal,
            created=now,
            expires=expires,
            note=wanted.note,
            quota=self._quota,
        )
        with _write_errors():
            token, entry = await tokens.change(add)
        add_to_operation(parsed.request.scope, affected_token_id=entry.id)
        content = {"token": token, **without_none(token_facts(entry))}
        if warnings := _warnings(principal, self._agents()):
            content["warnings"] = warnings
        headers = {TRACE_HEADER: parsed.trace_id, "Cache-Control": "no-store"}
        return json_response(content, headers=headers)

    async def revoke(self, parsed: ParsedRequest[None]) -> Response:
        """Revoke one token; it is refused here before the answer."""
        tokens = self._file_of("revoke")
        query = validate(TokenQuery, single_values(parsed.request.query_params))
        holder = await self._gate.check_own(parsed, OperatorRight.TOKENS)
        scope = parsed.request.scope
        add_to_operation(scope, "token.revoked", affected_token_id=query.token_id)
        revoke = partial(
            revoke_token,
            token_id=query.token_id,
            may_revoke=lambda it: excess_of(it, holder) is None,
        )
        with _write_errors():
            entry = await tokens.change(revoke)
        add_to_operation(scope, **without_none({"tenant_id": entry.principal.tenant_id}))
        content = without_none(token_facts(entry))
        return json_response(content, headers={TRACE_HEADER: parsed.trace_id})

    def _file_of(self, command: str) -> TokenFileVerifier:
        """Return the tokens. Raises Forbidden where callers prove themselves in another way."""
        if self._tokens is None:
            raise Forbidden(
                "tokens can be managed here only with auth_mode token; use the command "
                f"mcp-tools-proxy tokens {command}"
            )
        return self._tokens


def _page(
    entries: Collection[TokenEntry], holder: Principal, query: TokensQuery
) -> dict[str, object]:
    """Return the page that the query wants, of those that may do at most what ``holder`` may."""
    listed = {
        _place(entry): entry
        for entry in entries
        if query.tenant_id in (None, entry.principal.tenant_id)
        and query.token_id in (None, entry.id)
        and excess_of(entry.principal, holder) is None
    }
    places = sorted(
        (it for it in listed if query.cursor is None or it < query.cursor), reverse=True
    )
    shown = places[: query.limit]
    answer: dict[str, object] = {
        "tokens": [without_none(token_facts(listed[place])) for place in shown]
    }
    if len(places) > len(shown):
        answer["next_cursor"] = shown[-1]
    return answer


def _place(entry: TokenEntry) -> str:
    """Return a token's place in the list, which stays when others go: later is greater."""
    seconds = 0 if entry.created is None else max(0, int(entry.created.timestamp()))
    return f"{seconds:012d}.{entry.id}"


def _checked(wanted: Principal, holder: Principal) -> Principal:
    """Return what a token is wanted for. Raises InvalidRequest, Forbidden."""
    match contradiction_of(wanted):
        case "tenant":
            raise InvalidRequest(
                "tenant_id: is missing; name a tenant or operator rights",
                details={"field": "tenant_id"},
            )
        case "asserts_users":
            raise InvalidRequest(
                "asserts_users: each request sets user and roles; leave out user_id and roles",
                details={"field": "asserts_users"},
            )
    field = excess_of(wanted, holder)
    if field is not None:
        raise Forbidden(
            f"{field}: would give the new token more permissions than yours; ask for fewer, or "
            "send a token that has them",
            details={"field": field},
        )
    return wanted


def _warnings(wanted: Principal, agents: Collection[str] | None) -> list[str]:
    return [
        f"agent {quote(name)} is not in agents.json; its calls are refused until a profile is added"
        for name in sorted(wanted.agents or ())
        if agents is not None and name not in agents
    ]


def _expiry(text: str, now: datetime) -> datetime:
    try:
        return parse_expiry(text, now)
    except ValueError as error:
        raise InvalidRequest(f"expires: {error}", details={"field": "expires"}) from None


@contextmanager
def _write_errors() -> Iterator[None]:
    """Convert what a change of the file raises to errors of the API."""
    try:
        yield
    except UnknownToken as error:
        raise NoSuchTokenHere(
            f"token {quote(str(error))} does not exist, or you may not revoke it; GET "
            "/internal/mcp/tokens lists the tokens that you may revoke"
        ) from None
    except TokenTooLarge:
        raise InvalidRequest(
            f"the token's fields are over {MAX_ENTRY_BYTES} bytes together; name fewer documents, "
            "agents and roles",
            details={"max_token_bytes": MAX_ENTRY_BYTES},
        ) from None
    except OSError as error:
        raise ConfigReadOnly(
            "the tokens file cannot be written, so nothing was changed; make its folder "
            "writable, or change the file at its source",
            reason=error.strerror,
        ) from error
