"""An MCP request, parsed once: method, parameters, caller and protocol era.

Requests of sessions and stateless requests both become an ``McpRequest``, so methods do not depend
on the transport.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from pydantic import ValidationError
from starlette.datastructures import Headers

from mcp_tools_proxy.domain.caller import Call, Caller, InputResponses, Kind, narrow_documents
from mcp_tools_proxy.domain.client import Client
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.domain.run import RunRequest
from mcp_tools_proxy.http.request_headers import trace_context_from, trace_id_of
from mcp_tools_proxy.mcp.server.clients import LEVELS
from mcp_tools_proxy.telemetry.request_events import RequestFacts
from mcp_tools_proxy.wire.identifiers import (
    DOCUMENTS_RULE,
    IDEMPOTENCY_KEY_RULE,
    document_ids,
    is_idempotency_key,
)
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS, LOG_LEVEL_META_KEY
from mcp_tools_proxy.wire.problem_texts import problem_of
from mcp_tools_proxy.wire.run_fields import RUN_HEADER, RunFields
from mcp_tools_proxy.wire.tracing import (
    DOCUMENTS_KEY,
    IDEMPOTENCY_KEY,
    OUR_PREFIX,
    RUN_KEY,
    SOURCES_KEY,
    TRACE_CONTEXT,
    valid_context,
)

BuildClient = Callable[[object, str | None], Client]
"""Builds the Client of a request from its progress token and its log level."""

NO_HEADERS = Headers(raw=[])

KNOWN_METHODS = frozenset(
    {
        *("initialize", "ping", "logging/setLevel", "completion/complete", "server/discover"),
        *("resources/subscribe", "resources/unsubscribe", "resources/list", "resources/read"),
        *("resources/templates/list", "tools/list", "tools/call", "prompts/list", "prompts/get"),
        "subscriptions/listen",
    }
)


def facts_of(method: str, trace_id: str, client_name: str | None = None) -> RequestFacts:
    """Return the fields of a request's record.

    An unknown method could be any text, so it is recorded as "unknown".
    """
    return RequestFacts(method if method in KNOWN_METHODS else "unknown", trace_id, client_name)


SIGN_IN_KEY = f"{OUR_PREFIX}sign_in"
"""The key of our input request for a user's sign-in to a server, and of its response."""


@dataclass(frozen=True, slots=True)
class McpRequest:
    """A request. ``params`` are unchecked; ``modern`` is True for MCP 2026-07-28 or newer."""

    method: str
    params: Mapping[str, Any]
    caller: Caller
    modern: bool
    trace_id: str
    headers: Headers
    """Headers of this HTTP request; empty on stdio and for the connector."""
    log_level: str | None
    """Lowest severity of log messages that the client wants; None for no messages."""
    build_client: BuildClient
    options: ListOptions
    client_name: str | None = None
    session_run: str | None = None
    """The id of the run of requests that name none; None if sessions are no runs."""

    @classmethod
    def from_params(
        cls,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        build_client: BuildClient,
        *,
        modern: bool,
        headers: Headers = NO_HEADERS,
        session_log_level: str | None = None,
        options: ListOptions = SERVER_NAMES,
        client_name: str | None = None,
        session_run: str | None = None,
    ) -> Self:
        """Create a request with the trace id of ``_meta`` or headers, or a new one.

        ``session_log_level`` is used in older eras; a modern request has its log level in
        ``_meta``.
        """
        meta = _object_or_empty(params.get("_meta"))
        log_level = meta.get(LOG_LEVEL_META_KEY) if modern else session_log_level
        return cls(
            method=method,
            params=params,
            caller=caller,
            modern=modern,
            trace_id=trace_id_of(headers, meta.get("traceparent")),
            headers=headers,
            log_level=log_level if log_level in LEVELS else None,
            build_client=build_client,
            options=options,
            client_name=client_name,
            session_run=session_run,
        )

    def narrowed(self) -> Self:
        """Return the request restricted to the documents in ``_meta``, if any.

        Raises JsonRpcError for an invalid list.
        """
        ids = _object_or_empty(self.params.get("_meta")).get(DOCUMENTS_KEY)
        if ids is None:
            return self
        try:
            if not isinstance(ids, list):
                raise ValueError(DOCUMENTS_RULE)  # noqa: TRY301, TRY004 - as for a wrong list
            documents = narrow_documents(self.caller.documents, document_ids(ids))
        except ValueError as error:
            raise JsonRpcError(INVALID_PARAMS, f'_meta["{DOCUMENTS_KEY}"] {error}') from None
        return replace(self, caller=replace(self.caller, documents=documents))

    @property
    def facts(self) -> RequestFacts:
        """The fields of its record."""
        return facts_of(self.method, self.trace_id, self.client_name)

    def require_str(self, name: str) -> str:
        """Return a required string parameter. Raises JsonRpcError."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise JsonRpcError(INVALID_PARAMS, f"{name} should be a string")
        return value

    def optional_object(self, name: str) -> Mapping[str, Any]:
        """Return an object parameter, or {} if it is absent. Raises JsonRpcError."""
        value = self.params.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise JsonRpcError(INVALID_PARAMS, f"{name} should be an object")
        return value

    def to_call(self, kind: Kind, name: str, arguments: Mapping[str, Any]) -> Call:
        """Build the call for the executor. Raises JsonRpcError for a malformed ``_meta``."""
        meta = self.optional_object("_meta")
        return Call(
            name=name,
            kind=kind,
            arguments=arguments,
            caller=self.caller,
            trace_id=self.trace_id,
            trace_context=self.trace_context,
            meta=meta,
            client=self.build_client(meta.get("progressToken"), self.log_level),
            input_responses=self._input_responses() if self.modern else None,
            sources=_sources(meta),
            idempotency_key=_idempotency_key(meta) if kind is Kind.TOOL else None,
            run=self._run(meta),
            route=self.method,
            client_name=self.client_name,
        )

    def _run(self, meta: Mapping[str, Any]) -> RunRequest | None:
        """Return the run in ``_meta`` or ``X-Run-Id``, or that of the session.

        Raises JsonRpcError if it is invalid.
        """
        written, of_header = meta.get(RUN_KEY), self._run_of_header()
        if written is None:
            run_id = self.session_run if of_header is None else of_header
            if run_id is None:
                return None
            written = {"id": run_id}
        try:
            run = RunFields.model_validate(written).request()
        except ValidationError as error:
            (first, *_) = error.errors(include_url=False, include_input=False)
            place = "".join(f".{it}" for it in first["loc"])
            problem = f'_meta["{RUN_KEY}"]{place}: {problem_of(first)}'
            raise JsonRpcError(INVALID_PARAMS, problem) from None
        if of_header not in (None, run.run_id):
            problem = f'{RUN_HEADER}: differs from _meta["{RUN_KEY}"].id; send only one of them'
            raise JsonRpcError(INVALID_PARAMS, problem)
        return run

    def _run_of_header(self) -> str | None:
        """Return the id in ``X-Run-Id``, which is UTF-8. Raises JsonRpcError for a repeated one."""
        values = self.headers.getlist(RUN_HEADER)
        if len(values) > 1:
            raise JsonRpcError(INVALID_PARAMS, f"{RUN_HEADER}: is given twice; keep one")
        return values[0].encode("latin-1").decode(errors="surrogateescape") if values else None

    @property
    def has_sign_in_response(self) -> bool:
        """Whether the client responds to our sign-in request."""
        return self.modern and SIGN_IN_KEY in self._responses

    @property
    def _responses(self) -> Mapping[str, Any]:
        return _object_or_empty(self.params.get("inputResponses"))

    def _input_responses(self) -> InputResponses | None:
        """Return the responses for the server, without our sign-in response."""
        own = self.has_sign_in_response and len(self._responses) == 1
        if own and "requestState" not in self.params:
            return None
        if "inputResponses" not in self.params and "requestState" not in self.params:
            return None
        state = self.params.get("requestState")
        if state is not None and not isinstance(state, str):
            raise JsonRpcError(INVALID_PARAMS, "requestState should be a string")
        responses = self.optional_object("inputResponses")
        others = {name: it for name, it in responses.items() if name != SIGN_IN_KEY}
        return InputResponses(responses=others, state=state)

    @property
    def trace_context(self) -> Mapping[str, str]:
        """The W3C trace context of ``_meta``, or of the HTTP headers."""
        meta = _object_or_empty(self.params.get("_meta"))
        trace_headers = {k: v for k, v in meta.items() if k in TRACE_CONTEXT and isinstance(v, str)}
        return valid_context(trace_headers) if trace_headers else trace_context_from(self.headers)


def _idempotency_key(meta: Mapping[str, Any]) -> str | None:
    """Return the idempotency key in ``_meta``. Raises JsonRpcError if it is invalid."""
    key = meta.get(IDEMPOTENCY_KEY)
    if key is None or (isinstance(key, str) and is_idempotency_key(key)):
        return key
    raise JsonRpcError(INVALID_PARAMS, f'_meta["{IDEMPOTENCY_KEY}"] {IDEMPOTENCY_KEY_RULE}')


def _sources(meta: Mapping[str, Any]) -> bool | None:
    """Return whether ``_meta`` requests sources; None if absent. Raises JsonRpcError."""
    wanted = meta.get(SOURCES_KEY)
    if wanted is None or isinstance(wanted, bool):
        return wanted
    raise JsonRpcError(INVALID_PARAMS, f'_meta["{SOURCES_KEY}"] should be true or false')


def _object_or_empty(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
