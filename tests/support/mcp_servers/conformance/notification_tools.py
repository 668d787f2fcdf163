import asyncio

import mcp_types as t
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ToolsListChanged,
)

from tests.support.mcp_servers.conformance.results import Answer, text_result
from tests.support.mcp_servers.conformance.rounds import Behaviour, Context, Round

PAUSE_S = 0.05
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


async def _log(call: Round, text: str) -> None:
    """Send a log line; in the modern era only if the request asks for logs."""
    if call.is_modern and LOG_LEVEL not in (call.context.meta or {}):
        return
    line = t.LoggingMessageNotificationParams(level="info", data=text)
    await call.context.session.send_notification(
        t.LoggingMessageNotification(params=line), call.context.request_id
    )


async def log_lines(call: Round) -> Answer:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await _log(call, text)
        await asyncio.sleep(PAUSE_S)
    return text_result("Logged three lines")


async def progress(call: Round) -> Answer:
    for done in (0, 50, 100):
        await call.context.session.report_progress(done, 100, f"{done} of 100")
        await asyncio.sleep(PAUSE_S)
    return text_result("Told of its progress three times")


async def reconnect(call: Round) -> Answer:
    """Close the answer's stream if the transport can, so that it must be resumed.

    The pause lets the stream's first event out, which names the place to resume.
    """
    if call.context.close_sse_stream is not None:
        await asyncio.sleep(PAUSE_S)
        await call.context.close_sse_stream()
        await asyncio.sleep(4 * PAUSE_S)
    return text_result("Answered after the stream was closed")


class Lists:
    """The changing items that currently exist; listeners are notified of changes."""

    TOOL = "test_dynamic_tool"
    PROMPT = "test_dynamic_prompt"

    def __init__(self, bus: InMemorySubscriptionBus) -> None:
        self._bus = bus
        self.has_tool = False
        self.has_prompt = False

    async def change_tools(self, call: Round) -> Answer:
        self.has_tool = not self.has_tool
        await self._bus.publish(ToolsListChanged())
        await _notify_legacy(call.context, t.ToolListChangedNotification())
        return text_result("The list of tools changed")

    async def change_prompts(self, call: Round) -> Answer:
        self.has_prompt = not self.has_prompt
        await self._bus.publish(PromptsListChanged())
        await _notify_legacy(call.context, t.PromptListChangedNotification())
        return text_result("The list of prompts changed")


async def _notify_legacy(context: Context, notification: t.ServerNotification) -> None:
    """Notify a legacy caller on its connection's stream; a modern one listens."""
    if not Round(context=context).is_modern:
        await context.session.send_notification(notification)


NOTIFYING: dict[str, Behaviour[t.CallToolResult]] = {
    "test_tool_with_logging": log_lines,
    "test_logging_tool": log_lines,
    "test_tool_with_progress": progress,
    "test_reconnection": reconnect,
}
