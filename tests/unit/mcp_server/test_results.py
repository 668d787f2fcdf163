"""What a server adds to its results reaches the client, but not in our name."""

from mcp_tools_proxy.domain.outcome import Ok
from mcp_tools_proxy.mcp_server.results import prompt_result, tool_result
from mcp_tools_proxy.wire.tracing import OUR_PREFIX, TRACE_ID_KEY
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
