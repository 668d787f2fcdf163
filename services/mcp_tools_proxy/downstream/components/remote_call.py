"""One call of a component at its server: the ``_meta`` sent with it, metrics, debug log, errors.

The debug events are two steps of F-20's chain: ``facade_to_downstream.request``, and
``downstream.response`` or ``.error``. They contain names, sizes and types, but no content (contract
§7).
"""

import asyncio
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import field, replace
from types import NoneType, TracebackType
from typing import Any, Self

import structlog
from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Call, InputResponses, Kind
from mcp_tools_proxy.domain.caller_template import withheld_from_stand_in
from mcp_tools_proxy.domain.client import NULL_CLIENT, Client
from mcp_tools_proxy.domain.components import ComponentSpec, Result
from mcp_tools_proxy.domain.errors import (
    InternalError,
    LoginRequired,
    ProxyError,
    QuotedText,
    ResultTooLarge,
    ToolFailed,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import CANCELLED
from mcp_tools_proxy.domain.server import LoginFor, ServerConfig
from mcp_tools_proxy.downstream.call_relay import INPUT_REQUIRED, CallRelay
from mcp_tools_proxy.downstream.caller_values import caller_meta, templates_of
from mcp_tools_proxy.downstream.client_input import (
    Rounds,
    may_suspend,
    response_fields,
    resume_key_of,
    supports_all,
)
from mcp_tools_proxy.downstream.connection import MESSAGE_CHARS
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.telemetry.call_events import NAME_KEYS, declared_arguments
from mcp_tools_proxy.telemetry.spans import outgoing_context, server_span
from mcp_tools_proxy.wire.encoding import encodable
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import CLIENT_ERROR_CODES
from mcp_tools_proxy.wire.text import QUOTE_CHARS, estimate_tokens, quote
from mcp_tools_proxy.wire.tracing import TRACE_ID_KEY, forwardable_meta


def check_stand_in(config: ServerConfig) -> None:
    """Check, before a session is opened, that a server's entry needs no values of its callers.

    A session would start a process without its variables. Values that go with a call, such as bound
    arguments and ``forward``, are refused when filled in. Raises LoginRequired for the login of a
    tenant or user, otherwise CredentialsMissing.
    """
    auth, texts = config.auth, config.caller_texts
    if auth is not None and auth.login_for is not LoginFor.DEPLOYMENT:
        if not auth.grant.needs_person:
            raise withheld_from_stand_in("auth")
        raise LoginRequired(
            f"server {config.server_id} needs the login of a {auth.login_for.value}, which is "
            "never used when an operator acts for the user; the user has to make this call",
            details={"server_id": config.server_id},
        )
    if config.assertion is not None:
        raise withheld_from_stand_in("assertion")
    if texts is not None and any(it.caller_parts for it in templates_of(texts)):
        raise withheld_from_stand_in("part of the caller")


BLOCKS = ("content", "messages", "contents")
"""The parts of a tool's, a prompt's and a resource's result."""

LEAST_BLOCK_BYTES = 20
"""``{"type":"x","y":""},`` is the smallest part as JSON."""

MAX_DATA_BYTES = 8192
"""Maximum size as JSON of a server error's ``data`` that is passed on."""

_OK = "OK"

_JSON_TYPES: Mapping[type, str] = {
    NoneType: "null",
    bool: "a boolean",
    str: "a string",
    list: "an array",
    dict: "an object",
}

_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class RemoteTarget:
    """One component at its server; ``name`` is the server's own name for it."""

    session: ReconnectingSession
    spec: ComponentSpec
    name: str
    log: Any = field(
        init=False, repr=False, default_factory=lambda: structlog.get_logger().bind()
    )  # bound once: structlog's lazy logger binds at each attribute access

    @property
    def max_result_bytes(self) -> int:
        """Maximum size of a result as JSON, from the server's entry."""
        return self.session.config.max_result_bytes


class RemoteCall:
    """One call of a component at its server, logged and counted at the end of its context.

    It is a class because ``contextlib.contextmanager`` costs more per call.
    """

    __slots__ = (
        *("_call", "_debug_enabled", "_method", "_params", "_raw", "_session", "_started"),
        *("_target", "_waited_s"),
    )

    def __init__(self, target: RemoteTarget, call: Call) -> None:
        self._target = target
        self._call = call
        self._session = target.session
        self._waited_s = call.waited_s
        self._raw: Any = None

    def __enter__(self) -> Self:
        target, call = self._target, self._call
        self._debug_enabled = target.log.is_enabled_for(logging.DEBUG)
        if self._debug_enabled:
            target.log.debug(
                "facade_to_downstream.request",
                **self._log_fields(),
                arguments=declared_arguments(call, target.spec),
            )
        self._started = target.session.clock()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        session = self._target.session
        seconds = session.clock() - self._started
        code = _OK if error is None else _code_of(error)
        session.metrics.observe_call(self._call.kind, code, seconds)
        if self._debug_enabled:
            self._log_outcome(code, seconds)

    async def send(self, method: str, params: dict[str, Any]) -> Any:
        """Send the request, in rounds if the server needs more input; return the raw result.

        An idempotent request is repeated once if it got no answer, but not a call that
        ``is_sent_once``. The result is ``input_required`` only if the call's client supports that,
        or cannot be sent the server's requests. Raises as ``RequestSender.send`` and
        ``check_stand_in``; ResultTooLarge; ToolFailed, and ToolTimeout if the client did not
        answer.
        """
        target, call = self._target, self._call
        config = target.session.config
        if call.caller.stand_in is not None:
            check_stand_in(config)
        with server_span(method, config, target.spec, target.name) as span:
            meta = params["_meta"] = meta_of(call)
            if config.forward:
                meta |= caller_meta(config.forward, call.caller)
            self._method, self._params = method, params
            if target.session.lease is None:
                raw = await self._send()
            else:
                async with target.session.lease(call.caller, call.waited_s) as leased:
                    self._session, self._waited_s = leased
                    raw = await self._send()
            if isinstance(raw, dict) and raw.get("isError") is True:
                span.fail("tool_error")
        self._raw = raw
        _check_count(raw, target.max_result_bytes)
        return raw

    async def _send(self) -> Any:
        call, session = self._call, self._session
        if call.client is NULL_CLIENT and call.input_responses is None:
            raw = await self._send_round(None, None)
            return await self._send_more_rounds(raw, None) if input_required(raw) else raw
        if may_suspend(call, legacy=session.is_legacy):
            resume_key = resume_key_of(call, session.config, self._method, self._params)
            return await session.suspended_calls.send(
                call, resume_key, self._send_relayed, session.metrics
            )
        if call.input_responses is not None:
            self._params |= response_fields(call.input_responses)
        return await self._send_relayed(call.client)

    async def _send_relayed(self, client: Client) -> Any:
        caller = self._call.caller
        async with CallRelay(client, (caller.tenant_id, caller.user_id)) as relay:
            raw = await self._send_round(relay, None)
            if client.supports_input_required:
                return raw
            return await self._send_more_rounds(raw, relay)

    async def _send_more_rounds(self, raw: Any, relay: CallRelay | None) -> Any:
        """Repeat rounds until the result is final, or needs input that only the caller has."""
        rounds = Rounds(relay)
        while input_required(raw) and (responses := await rounds.answer(raw)) is not None:
            raw = await self._send_round(relay, responses)
        return raw

    async def _send_round(self, relay: CallRelay | None, responses: InputResponses | None) -> Any:
        """Send the request of one round; the first one is without ``responses``.

        The server has seen the first round. So a failure of a later round is retryable only if the
        call is idempotent, and never reports that nothing ran.
        """
        call, session = self._call, self._session
        idempotent = self._target.spec.idempotent and not call.is_sent_once
        is_first = responses is None
        params = self._params if responses is None else self._params | response_fields(responses)
        try:
            return await session.sender.send(
                self._method,
                params,
                repeatable=idempotent and is_first and call.input_responses is None,
                idempotent=idempotent,
                relay=relay,
                tenant_id=call.caller.tenant_id,
                waited_s=self._waited_s if is_first else 0.0,
                caller=call.caller,
            )
        except JsonRpcError as error:
            error.came_first = is_first and (relay is None or not relay.request_count)
            raise
        except ProxyError as error:
            if not is_first and not idempotent and (error.retryable or error.nothing_ran):
                raise error.after_sending() from None
            raise

    def input_required_result(self, raw: dict[str, Any]) -> Result:
        """Return an ``input_required`` result unchanged, for a client that supports all of it.

        Raises ToolFailed for any other client.
        """
        client = self._call.client
        if not (client.supports_input_required and supports_all(client, raw)):
            name, kind = quote(self._target.spec.name), self._call.kind.value
            raise ToolFailed(
                f"{name} asks for more input while it runs, which cannot be given here; "
                f"pass all it needs as arguments, or use another {kind}"
            )
        value = encodable(raw)
        return Result(
            value=value,
            tokens=estimate_tokens(len(to_json(value))),
            max_bytes=self._target.max_result_bytes,
            input_required=True,
        )

    def valid_result(self, result: Result | None, label: str, expected: str) -> Result:
        """Return ``result``, limited by the server's ``max_result_bytes``.

        Raises ToolFailed for None, the result of an answer that was not as ``expected``.
        """
        if result is None:
            raise ToolFailed(
                f"{label} failed: its server's answer is not {expected}; use another, or tell the "
                "user"
            )
        return replace(result, max_bytes=self._target.max_result_bytes)

    def _log_fields(self) -> dict[str, object]:
        call, spec = self._call, self._target.spec
        fields: dict[str, object] = {
            "trace_id": call.trace_id,
            call.kind.value: spec.name[:QUOTE_CHARS],
            "server_id": spec.server_id,
            NAME_KEYS[call.kind]: spec.name[:QUOTE_CHARS],
            "resolvedServerId": spec.server_id,
        }
        if call.kind is Kind.TOOL:
            fields["downstreamTool"] = self._target.name[:QUOTE_CHARS]
        return fields

    def _log_outcome(self, code: str, seconds: float) -> None:
        log = self._target.log
        fields = {**self._log_fields(), "duration_ms": round(seconds * 1000, 3)}
        if code == _OK:
            log.debug("downstream.response", **fields, response=shape_of(self._raw))
        else:
            log.debug("downstream.response.error", **fields, errorMessage=code)


def input_required(raw: object) -> bool:
    """Return whether an answer requires input instead of being a result."""
    return isinstance(raw, dict) and raw.get("resultType") == INPUT_REQUIRED


def _code_of(error: BaseException) -> str:
    match error:
        case ProxyError():
            return error.code
        case asyncio.CancelledError():
            return CANCELLED
        case _:
            return InternalError.code


def _check_count(raw: object, max_bytes: int) -> None:
    """Raise ResultTooLarge for more parts than fit into ``max_bytes``, before they are parsed."""
    blocks = _blocks_of(raw) if isinstance(raw, dict) else None
    if isinstance(blocks, list) and len(blocks) * LEAST_BLOCK_BYTES > max_bytes:
        raise ResultTooLarge(
            f"the result has {len(blocks)} parts, too many for {max_bytes} bytes; ask for less at "
            "a time",
            details={"parts": len(blocks), "max_result_bytes": max_bytes},
        )


def meta_of(call: Call) -> dict[str, object]:
    """Build the ``_meta`` of a request: the caller's own (W-12), trace id, W3C trace context.

    The gateway's values win, and a caller cannot set keys that MCP reserves. A missing
    ``traceparent`` is derived from the trace id, if W3C's format accepts that id.
    """
    meta: dict[str, object] = {TRACE_ID_KEY: call.trace_id, **outgoing_context(call.trace_context)}
    if "traceparent" not in meta and _TRACE_ID.fullmatch(call.trace_id):
        meta["traceparent"] = f"00-{call.trace_id}-{secrets.token_hex(8)}-01"
    if call.meta:
        meta = {**encodable(forwardable_meta(call.meta)), **meta}
    return meta


def tool_failed_from(name: str, error: JsonRpcError) -> ToolFailed:
    """Build the error for a server's JSON-RPC error; the server's own words are quoted and cut.

    CLIENT_ERROR_CODES ask the client to do something first, so nothing ran.
    """
    prefix = f"{name} failed: its server answered with error {error.code}: "
    quoted = QuotedText(
        error.message[: MESSAGE_CHARS + MARGIN_CHARS],
        lambda text: prefix + quote(text, MESSAGE_CHARS),
    )
    details: dict[str, object] = {"code": error.code}
    if error.data is not None and len(to_json(error.data)) <= MAX_DATA_BYTES:
        details["data"] = error.data
    failure = ToolFailed(quoted.message_of(quoted.text), details=details)
    failure.quoted = quoted
    failure.nothing_ran = error.came_first and error.code in CLIENT_ERROR_CODES
    return failure


MARGIN_CHARS = 8_192
"""Additional characters of a server's text that are kept for guards.

A secret that is cut at the end of the quotation would match no pattern.
"""


def type_of(raw: object) -> str:
    """Return the name of a value's JSON type."""
    return _JSON_TYPES.get(type(raw), "a number")


def shape_of(raw: object) -> dict[str, object]:
    """Return the sizes and types of a result for the log, without its text."""
    if not isinstance(raw, dict):
        return {"type": type_of(raw)}
    blocks = _blocks_of(raw)
    shape: dict[str, object] = {"keys": len(raw), "structured": "structuredContent" in raw}
    try:
        shape["bytes"] = len(to_json(raw))
    except ValueError:
        shape["bytes"] = None
    if isinstance(blocks, list):
        shape["blocks"] = len(blocks)
        shape["types"] = sorted({_type_of(block) for block in blocks})
    return shape


def _blocks_of(raw: dict[str, Any]) -> object:
    return next((raw[field] for field in BLOCKS if field in raw), None)


def _type_of(block: object) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind[:QUOTE_CHARS] if isinstance(kind, str) else "none"
