"""Captures log lines like structlog, including standard log records with their fields."""

import json
from collections.abc import MutableMapping
from functools import partial
from typing import Any

import structlog.testing

from mcp_tools_proxy.telemetry.log_lines import RenderedLine


def _with_fields(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Any:
    line = event["event"]
    if not isinstance(line, RenderedLine):
        return event
    record = json.loads(line)
    return {**record["payload"], "event": record["event"], "trace_id": record["trace_id"]}


capture_logs = partial(structlog.testing.capture_logs, processors=[_with_fields])
