"""Lists, creates and revokes bearer tokens, for operators (contract §1)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier
from mcp_tools_proxy.auth.token_format import (
    ID_PATTERN,
    MAX_ROLES,
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
from mcp_tools_proxy.domain.errors import ConfigReadOnly, Forbidden, InvalidRequest, NoSuchTokenHere
from mcp_tools_proxy.domain.identity import OperatorRight, Principal, roles_of
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.openapi import (
    Examples,
    SharedAnswer,
    Tag,
    refusal,
)
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import Feature, operation, response_of
from mcp_tools_proxy.http.request_refusals import add_to_operation
from mcp_tools_proxy.policy.token_rights import excess_of
from mcp_tools_proxy.wire.identifiers import CONTROL_CHARACTERS, MAX_DOCUMENTS, Identifier
from mcp_tools_proxy.wire.text import quote

MAX_TOKENS = 1000
"""Maximum number of tokens in an answer."""

MAX_AGENTS = 1000
"""Limit of agents of a new token."""


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
    """A misspelt field would widen the token."""

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
    execute: Annotated[
        bool, Field(description="Whether the token may make calls; `false` for approvers.")
    ] = True
    expires: Annotated[str, Field(max_length=64)] | None = None
    note: Annotated[
        str, StringConstraints(max_length=1000, pattern=rf"^[^{CONTROL_CHARACTERS}]*$")
    ] = ""

    @property
    def principal(self) -> Principal:
        """Identity and permissions of the token."""
        return Principal(
            tenant_id=self.tenant_id,
            user_id=self.user_id,
            roles=roles_of(self.roles),
            asserts_users=self.asserts_users,
            agents=None if self.agents is None else frozenset(self.agents),
            documents=None if self.documents is None else frozenset(self.documents),
            rights=frozenset(self.rights),
            executes=self.execute,
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
    execute: Annotated[bool, Field(description="Whether the token may make calls.")]
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


PATH = "/internal/mcp/tokens"

_READ_ONLY = SharedAnswer(
    "TokensNotChanged",
    refusal(
        "CONFIG_READ_ONLY: the tokens file is not writable. QUOTA_EXCEEDED: the tenant's token "
        "quota would be exceeded."
    ),
)
_NO_TOKEN = SharedAnswer(
    "NoSuchToken",
    refusal("NOT_FOUND: no such token, or the request's token may not revoke it."),
)


_TOKEN_EXAMPLES: Examples = {
    "of a service that knows its users": {
        "tenant_id": "tenant_1",
        "asserts_users": True,
        "expires": "90d",
        "note": "chat service",
    },
    "of one user and one agent": {
        "tenant_id": "tenant_1",
        "user_id": "user_1",
        "agents": ["reader"],
    },
    "of an operator": {"rights": ["audit", "documents"], "expires": "2099-01-01"},
}


class TokenRoutes(Feature):
    """Operations on tokens; all need the right TOKENS, and are limited to the sender's permissions.

    ``tokens`` is None unless callers use the tokens file. ``agents`` returns the agents with a
    profile, None if they are unknown.
    """

    tag = Tag.TOKENS

    def __init__(
        self,
        gate: OperatorGate,
        tokens: TokenFileVerifier | None,
        agents: Callable[[], Collection[str] | None],
        quota: Quota,
        *,
        on_change: Callable[[], Awaitable[None]],
    ) -> None:
        self._gate = gate
        self._tokens = tokens
        self._agents = agents
        self._quota = quota
        self._on_change = on_change

    @operation("GET", PATH, "The tokens.", token_for=OperatorRight.TOKENS)
    async def list_tokens(self, parsed: ParsedRequest[None], query: TokensQuery) -> TokensAnswer:
        """List bearer tokens.

        Lists tokens whose permissions do not exceed those of the request's token, newest first and
        without secrets. Requires the operator right `tokens`. Only with `auth_mode` token.
        """
        tokens = self._file_of("list")
        holder = await self._gate.check_own(parsed, OperatorRight.TOKENS, tenant_id=query.tenant_id)
        # 10,000 tokens take 40 ms
        answer = await asyncio.to_thread(_page, list(tokens.entries), holder, query)
        if (holder.tenant_id, query.tenant_id, query.cursor) == (None, None, None):
            answer.problems = [*tokens.problems] or None
        return answer

    @operation(
        "POST",
        PATH,
        "The new token, shown only now, and its scope.",
        model=NewToken,
        token_for=OperatorRight.TOKENS,
        examples=_TOKEN_EXAMPLES,
        errors={409: _READ_ONLY},
    )
    async def create_token(self, parsed: ParsedRequest[TokenWanted]) -> Response:
        """Create a bearer token.

        The token is shown only in this response. It is valid at once on this replica, and within a
        second on others that read the same file. Its tenant, user, roles, agents, documents and
        rights cannot exceed those of the request's token. Requires the operator right `tokens`.
        Only with `auth_mode` token.
        """
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
        await self._on_change()
        add_to_operation(parsed.request.scope, affected_token_id=entry.id)
        new = {**token_facts(entry), "token": token}
        answer = NewToken(**new, warnings=_warnings(principal, self._agents()) or None)
        return response_of(answer, parsed, headers={"Cache-Control": "no-store"})

    @operation(
        "DELETE",
        PATH,
        "The revoked token.",
        token_for=OperatorRight.TOKENS,
        errors={404: _NO_TOKEN, 409: _READ_ONLY},
    )
    async def revoke_token(self, parsed: ParsedRequest[None], query: TokenQuery) -> TokenItem:
        """Revoke a bearer token.

        The token is refused at once on this replica, and within a second on others that read the
        same file. Its permissions must not exceed those of the request's token; a token can revoke
        itself. Requires the operator right `tokens`. Only with `auth_mode` token.
        """
        tokens = self._file_of("revoke")
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
        await self._on_change()
        add_to_operation(scope, **without_none({"tenant_id": entry.principal.tenant_id}))
        return TokenItem.model_validate(token_facts(entry))

    def _file_of(self, command: str) -> TokenFileVerifier:
        if self._tokens is None:
            raise Forbidden(
                "tokens can be managed here only with auth_mode token; use the command "
                f"mcp-tools-proxy tokens {command}"
            )
        return self._tokens


def _page(entries: Collection[TokenEntry], holder: Principal, query: TokensQuery) -> TokensAnswer:
    """Return a page of the tokens that can do at most what ``holder`` can."""
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
    return TokensAnswer(
        tokens=[TokenItem.model_validate(token_facts(listed[place])) for place in shown],
        next_cursor=shown[-1] if len(places) > len(shown) else None,
    )


def _place(entry: TokenEntry) -> str:
    """Return a token's sort key, which is stable when others are removed; later is greater."""
    seconds = 0 if entry.created is None else max(0, int(entry.created.timestamp()))
    return f"{seconds:012d}.{entry.id}"


def _checked(wanted: Principal, holder: Principal) -> Principal:
    """Return the new token's principal. Raises InvalidRequest, Forbidden."""
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
