"""Batches in the formats of model APIs, compared with plain calls."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.echo_calls import TEXTS, TOOL, echo_gateway, posted
from benchmarks.facade_messages import DOC_ID
from benchmarks.messages import BATCH, OK, section_calls
from benchmarks.paired import Comparison, measure_by_turns, table_of
from benchmarks.report import Result
from benchmarks.servers import fleet

CALLS = 8
LIMIT = 1.1

Call = Mapping[str, object]
Spell = Callable[[int, Call], Call]


def measure_batches(bench: Bench) -> Result:
    """Measure each API's format with document calls and downstream calls."""
    with ExitStack() as stack:
        (downstream,) = stack.enter_context(fleet(bench.workdir))
        service = stack.enter_context(echo_gateway(bench, "batches", downstream, DOC_ID))
        sections = [json.loads(body) for body in section_calls(DOC_ID)[:CALLS]]
        user, trace_id = sections[0]["user"], sections[0]["trace_id"]
        echoes = [{"tool_name": TOOL, "arguments": {"text": TEXTS[0]}}] * CALLS
        comparisons = []
        for what, calls in (("read_doc_section", sections), ("downstream call", echoes)):
            plain = [{key: call[key] for key in ("tool_name", "arguments")} for call in calls]
            for api, spell in _SPELLED.items():
                turns = (
                    posted(
                        service,
                        [json.dumps({"calls": items, "user": user, "trace_id": trace_id})],
                        f'"results":[{{{OK}',
                        1,
                        bench.sizes.ratio_calls // 4,
                        path=BATCH,
                    )
                    for items in ([spell(*it) for it in enumerate(plain)], plain)
                )
                name = f"{CALLS} times {what}, {api} / plain calls"
                ours, other = turns
                comparisons.append(Comparison(name=name, limit=LIMIT, ours=ours, other=other))
        measure_by_turns(bench, comparisons, bench.sizes.ratio_rounds)
    return table_of("CPU of a batch that is a model's reply, beside plain calls", comparisons)


def _chat(number: int, call: Call) -> Call:
    function = {"name": call["tool_name"], "arguments": json.dumps(call["arguments"])}
    return {"id": f"call_{number:024}", "type": "function", "function": function}


def _responses(number: int, call: Call) -> Call:
    return {
        "type": "function_call",
        "id": f"fc_{number:048}",
        "call_id": f"call_{number:024}",
        "name": call["tool_name"],
        "arguments": json.dumps(call["arguments"]),
        "status": "completed",
    }


def _anthropic(number: int, call: Call) -> Call:
    return {
        "type": "tool_use",
        "id": f"toolu_{number:024}",
        "name": call["tool_name"],
        "input": call["arguments"],
    }


_SPELLED: Mapping[str, Spell] = {
    "tool_calls": _chat,
    "output": _responses,
    "content": _anthropic,
}
