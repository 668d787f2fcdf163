"""A tool of a downstream server, as a component."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self, cast

import structlog
from pydantic_core import to_json

from mcp_tools_proxy.domain.bindings import Binding
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import JsonObject, NamesNoDocument, Result, ToolSpec
from mcp_tools_proxy.domain.errors import InvalidArguments, ProxyError, ResultTooLarge, ToolFailed
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import CheckArguments, Route
from mcp_tools_proxy.domain.server import OutputSchemaCheck, ServerConfig
from mcp_tools_proxy.downstream.components.bound_arguments import BoundArguments
from mcp_tools_proxy.downstream.components.normalize import failure_of, normalise_tool_result
from mcp_tools_proxy.downstream.components.remote_call import (
    RemoteCall,
    RemoteTarget,
    input_required,
    shape_of,
    tool_failed_from,
    type_of,
)
from mcp_tools_proxy.downstream.offered_items import NO_ARGUMENTS_SCHEMA, check_of
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics
from mcp_tools_proxy.wire.content_blocks import repeated_data_bytes
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.json_schema.argument_names import ArgumentNames, aliases_of
from mcp_tools_proxy.wire.json_schema.bound_offers import bound_schema
from mcp_tools_proxy.wire.json_schema.listed_schemas import with_object_properties
from mcp_tools_proxy.wire.json_schema.validator import ArgumentCheck, compile_check, with_defaults
from mcp_tools_proxy.wire.text import QUOTE_CHARS

SUBJECT = "structuredContent"


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """Check of a tool's structured results against its schema.

    If ``is_enforced``, a result that does not match fails its call.
    """

    check: ArgumentCheck
    spec: ToolSpec
    metrics: ServerMetrics
    is_enforced: bool

    @classmethod
    def build(cls, spec: ToolSpec, metrics: ServerMetrics, mode: OutputSchemaCheck) -> Self | None:
        """Build the check of a tool; None if checks are off, or without a schema.

        Discovery has removed invalid schemas.
        """
        if mode is OutputSchemaCheck.OFF or spec.output_schema is None:
            return None
        check = compile_check(spec.output_schema)
        return cls(check, spec, metrics, mode is OutputSchemaCheck.ENFORCE)

    def __call__(self, result: JsonObject, trace_id: str) -> None:
        """Log and count a result that does not match. Raises ToolFailed if enforced."""
        content = result.get("structured_content")
        if content is None:
            problem: str | None = f"{SUBJECT}: is missing"
        else:
            problem = self.check.mismatch(content, SUBJECT)
        if problem is None:
            return
        self.metrics.output_mismatched()
        log.warning(
            "server.output_mismatch",
            server_id=self.spec.server_id,
            tool=self.spec.name[:QUOTE_CHARS],
            trace_id=trace_id,
            problem=problem,
        )
        if self.is_enforced:
            raise ToolFailed(
                f"{self.spec.name} failed: its server's result does not match the tool's "
                f"outputSchema: {problem}; the tool ran, so check what it did, and tell the user"
            )


_OWN_FIELDS = frozenset({"name", "description", "inputSchema", "outputSchema", "annotations"})
"""The fields of a definition with a field in ToolSpec; all others become its ``extra``."""

_IDEMPOTENT_HINTS = ("readOnlyHint", "idempotentHint")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RemoteTool(NamesNoDocument):
    """A tool of a server."""

    spec: ToolSpec
    target: RemoteTarget
    check: CheckArguments
    max_text_bytes: int
    output_check: OutputCheck | None = None
    bound: BoundArguments | None = None
    """Arguments that the gateway fills in; ``spec`` does not contain them, ``check`` does."""
    names: ArgumentNames | None = None
    """The server's names of arguments that are listed under other names, if any."""

    @classmethod
    def build(
        cls,
        route: Route,
        session: ReconnectingSession,
        max_text_bytes: int,
        *,
        output_schema_check: OutputSchemaCheck = OutputSchemaCheck.OFF,
    ) -> Self:
        """Build the tool of a route."""
        spec = _spec_of(route, session.config)
        return cls(
            spec=spec,
            target=RemoteTarget(session, spec, route.name),
            check=_check_of(route, session),
            max_text_bytes=max_text_bytes,
            output_check=OutputCheck.build(spec, session.metrics, output_schema_check),
            names=_names_of(spec),
        )

    @property
    def bindings(self) -> Sequence[Binding]:
        """The bindings of its arguments."""
        return () if self.bound is None else tuple(self.bound)

    def bound_to(self, bindings: Sequence[Binding]) -> "RemoteTool":
        """Return the tool with these arguments bound in addition to its bound ones.

        Bindings without a matching argument are ignored. Raises NamedElsewhere.
        """
        found = bound_schema(self.spec.input_schema, bindings)
        if not found.bindings:
            return self
        spec = replace(self.spec, input_schema=found.schema)
        bound = BoundArguments((*self.bindings, *found.bindings))
        return replace(self, spec=spec, target=replace(self.target, spec=spec), bound=bound)

    def complete_arguments(self, call: Call) -> Call:
        """Return the call with the server's names of arguments, and the bound arguments.

        Raises InvalidArguments, IdentityRequired.
        """
        if self.names is not None:
            arguments = self.names.restore(call.arguments)
            call = call if arguments is call.arguments else replace(call, arguments=arguments)
        return call if self.bound is None else self.bound.complete(call)

    def parse(self, arguments: JsonObject) -> JsonObject:
        """Check the arguments against the tool's own schema, and return them unchanged (F-06).

        A missing required argument with a default gets the default: some servers declare such
        properties, from the schema of their parsed input.
        """
        try:
            self._check(arguments)
        except InvalidArguments:
            filled = with_defaults(arguments, self.spec.input_schema)
            if filled is arguments:
                raise
            self._check(filled)
            return filled
        return arguments

    def _check(self, arguments: JsonObject) -> None:
        if self.bound is None:
            self.check(arguments)
        else:
            self.check(arguments, self.bound.paths)

    async def call(self, parsed: object, call: Call) -> Result:
        """Call the tool. Raises ToolFailed for ``isError`` and JSON-RPC errors (F-21)."""
        with RemoteCall(self.target, call) as remote:
            try:
                raw = await remote.send(
                    "tools/call", {"name": self.target.name, "arguments": parsed}
                )
            except JsonRpcError as error:
                raise tool_failed_from(self.spec.name, error) from None
            if input_required(raw):
                return remote.input_required_result(raw)
            return self._result_of(raw, call)

    def _result_of(self, raw: object, call: Call) -> Result:
        """Convert the raw result.

        Raises ToolFailed for ``isError``, for a mismatch with an enforced schema, and for a result
        that is not an object although the tool declares an output schema.
        """
        answer = normalise_tool_result(raw, max_text_bytes=self.max_text_bytes)
        if answer.decode_failed:
            log.warning(
                "facade_to_llm.decode_failed",
                trace_id=call.trace_id,
                tool=self.spec.name,
                server_id=self.spec.server_id,
                toolName=self.spec.name,
                targetServerId=self.spec.server_id,
                downstreamTool=self.target.name,
                rawResponse=shape_of(raw),
            )
        if not isinstance(raw, dict) and self.spec.output_schema is not None:
            raise ToolFailed(
                f"{self.spec.name} failed: its server answered with "
                f"{type_of(raw)} instead of a result with structured content"
            )
        if answer.is_error:
            raise self._bounded(failure_of(answer, self.spec.name))
        if self.output_check is not None:
            self.output_check(answer.value, call.trace_id)
        return Result(
            value=answer.value, tokens=answer.tokens, max_bytes=self.target.max_result_bytes
        )

    def _bounded(self, failure: ToolFailed) -> ProxyError:
        size, limit = len(to_json(failure.details)), self.target.max_result_bytes
        if size <= limit or size - repeated_data_bytes(dict(failure.details or {})) <= limit:
            return failure
        return ResultTooLarge(
            f"{failure.message}; the rest of its answer was left out: it is {size} bytes, the "
            f"limit is {limit}",
            details={"bytes": size, "max_result_bytes": limit},
        )


def _spec_of(route: Route, config: ServerConfig) -> ToolSpec:
    """Build the tool's spec; its schema gets type ``object``, as clients expect."""
    descriptor = route.shown
    annotations = cast("JsonObject", descriptor.get("annotations") or {})
    input_schema = cast("JsonObject", descriptor.get("inputSchema") or NO_ARGUMENTS_SCHEMA)
    if input_schema.get("type") != "object":  # no type, or several
        input_schema = {**input_schema, "type": "object"}
    input_schema = with_object_properties(input_schema)
    output_schema = descriptor.get("outputSchema")
    return ToolSpec(
        name=qualified_name(route.server_id, route.name),
        alias=alias_of(route.server_id, route.name),
        description=cast("str", descriptor.get("description") or ""),
        input_schema=input_schema,
        argument_aliases=aliases_of(input_schema),
        output_schema=with_object_properties(output_schema)
        if isinstance(output_schema, Mapping)
        else None,
        annotations=annotations,
        extra={key: value for key, value in descriptor.items() if key not in _OWN_FIELDS},
        server_id=route.server_id,
        given_name=route.overrides.name,
        idempotent=any(annotations.get(hint) is True for hint in _IDEMPOTENT_HINTS),
        exchanges_jwt=config.exchanges_jwt,
        max_text_bytes=config.max_text_bytes,
        structured_in_messages=config.structured_in_messages,
    )


def _names_of(spec: ToolSpec) -> ArgumentNames | None:
    aliases = spec.argument_aliases
    return ArgumentNames(spec.input_schema, aliases) if aliases else None


def _check_of(route: Route, session: ReconnectingSession) -> CheckArguments:
    """Return the check compiled at discovery; compile it if the snapshot has been replaced."""
    snapshot = session.snapshot
    if snapshot is not None and snapshot.tools.get(route.name) is route.descriptor:
        return snapshot.checks[route.name]
    return check_of(route.descriptor)
