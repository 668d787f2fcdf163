"""Compares the results of a server's tools with their ``outputSchema``."""

from dataclasses import dataclass
from typing import Self

import structlog

from mcp_tools_proxy.domain.components import JsonObject, ToolSpec
from mcp_tools_proxy.domain.errors import ToolFailed
from mcp_tools_proxy.domain.server import OutputSchemaCheck
from mcp_tools_proxy.json_schema.validator import ArgumentCheck, compile_check
from mcp_tools_proxy.telemetry.server_metrics import ServerMetrics
from mcp_tools_proxy.wire.text import QUOTE_CHARS

SUBJECT = "structuredContent"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """Compares the structured content of one tool's results with its schema.

    With ``is_enforced`` a result that does not match fails its call.
    """

    check: ArgumentCheck
    spec: ToolSpec
    metrics: ServerMetrics
    is_enforced: bool

    @classmethod
    def build(cls, spec: ToolSpec, metrics: ServerMetrics, mode: OutputSchemaCheck) -> Self | None:
        """Build the check of a tool; None where results are not compared.

        That is so for a tool without a schema; discovery left out the broken ones.
        """
        if mode is OutputSchemaCheck.OFF or spec.output_schema is None:
            return None
        check = compile_check(spec.output_schema)
        return cls(check, spec, metrics, mode is OutputSchemaCheck.ENFORCE)

    def __call__(self, result: JsonObject, trace_id: str) -> None:
        """Log and count a result that does not match. Raises ToolFailed where that is enforced."""
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
