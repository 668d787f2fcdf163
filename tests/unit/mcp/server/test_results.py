"""Fields that a server adds to results are passed on, except those of the gateway."""

from dataclasses import replace

import pytest

from mcp_tools_proxy.domain.budget import BudgetStatus
from mcp_tools_proxy.domain.errors import SectionNotFound, ServerBusy
from mcp_tools_proxy.domain.outcome import Failed, Ok
from mcp_tools_proxy.mcp.server.results import (
    completion_result,
    prompt_result,
    resource_result,
    tool_result,
)
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.tracing import BUDGET_KEY, OUR_PREFIX, TRACE_ID_KEY
from tests.support.builders import make_call
from tests.support.fakes import FakeTool

FORGED = {TRACE_ID_KEY: "forged", f"{OUR_PREFIX}truncated": True, "theirs": 1}
OURS = {**FORGED, TRACE_ID_KEY: "trace-1"}


def ok(**result: object) -> Ok:
    spec = FakeTool(name="s1:add", server_id="s1").spec
    return Ok(spec=spec, result={**result, "meta": FORGED}, result_json=b"{}", tokens=0)


def test_a_server_cannot_set_the_trace_id_of_a_result() -> None:
    tool = tool_result(ok(content=[]), make_call(), modern=True)
    prompt = prompt_result(ok(messages=[]), "trace-1", modern=True)
    assert (tool["_meta"], prompt["_meta"]) == (OURS, OURS)


BUDGET = BudgetStatus(
    name="tenant_calls",
    remaining_calls=9,
    remaining_tokens=None,
    reset_s=60,
    unit="calls",
    limit=10,
    window_s=60,
)
SHOWN = {"name": "tenant_calls", "remaining_calls": 9, "reset_s": 60}


def test_results_and_failed_tools_have_the_budget_in_meta() -> None:
    good = replace(ok(content=[]), budget=BUDGET)
    failed = Failed(error=SectionNotFound("no such section"), budget=BUDGET)
    answers = [
        tool_result(good, make_call(), modern=True),
        tool_result(failed, make_call(), modern=True),
        prompt_result(replace(ok(messages=[]), budget=BUDGET), "trace-1", modern=True),
        resource_result(replace(ok(contents=[]), budget=BUDGET), "trace-1", "a://b", modern=True),
        completion_result(
            replace(ok(completion={"values": []}), budget=BUDGET), "trace-1", modern=True
        ),
    ]
    assert [answer["_meta"][BUDGET_KEY] for answer in answers] == [SHOWN] * len(answers)


def test_a_json_rpc_error_has_the_budget_in_its_data() -> None:
    failed = Failed(error=ServerBusy("busy"), budget=BUDGET)
    with pytest.raises(JsonRpcError) as caught:
        prompt_result(failed, "trace-1", modern=True)
    assert caught.value.data == {"code": "SERVER_BUSY", "message": "busy", "retryable": True} | {
        "trace_id": "trace-1",
        "budget": SHOWN,
    }


def test_a_server_cannot_forge_a_budget() -> None:
    spec = FakeTool(name="s1:add", server_id="s1").spec
    result = {"content": [], "meta": {BUDGET_KEY: {"name": "forged"}}}
    outcome = Ok(spec=spec, result=result, result_json=b"{}", tokens=0)
    assert BUDGET_KEY not in tool_result(outcome, make_call(), modern=True)["_meta"]
