"""What traces cost a document call: off, a tenth of the calls sampled, all of them."""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bench import Bench, Measured
from benchmarks.echo_calls import posted
from benchmarks.messages import OK, section_calls
from benchmarks.paired import Comparison, measure_by_turns, table_of, target_of
from benchmarks.report import Result
from benchmarks.servers import NO_CALL_REFUSED, ROOT, Server, bare, gateway

TENTH_LIMIT = 1.15
SDK_LIMIT = 1.2

DOC_ID = "big-0"

_SAMPLERS = {
    "all sampled": {"OTEL_TRACES_SAMPLER": "always_on"},
    "a tenth sampled": {
        "OTEL_TRACES_SAMPLER": "traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.1",
    },
}


def measure_traces(bench: Bench) -> Result:
    """Measure read_doc_section by turns, and the SDK's own cost of the spans in one process."""
    rounds, calls = bench.sizes.ratio_rounds, bench.sizes.ratio_calls
    with ExitStack() as stack:
        collector = stack.enter_context(bare("asgi", bench.workdir, b"{}"))
        collector.wait_for("{}", "/v1/traces", expected="")
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}"}
        folder = bench.folder("traces", DOC_ID)
        off = _started(bench, stack, folder, {})
        traced = {
            name: _started(bench, stack, folder, {**endpoint, **sampler})
            for name, sampler in _SAMPLERS.items()
        }
        sections = section_calls(DOC_ID)
        comparisons = [
            Comparison(
                name=f"read_doc_section, {name} / off",
                limit=TENTH_LIMIT,
                ours=posted(service, sections, OK, 1, calls),
                other=posted(off, sections, OK, 1, calls),
            )
            for name, service in traced.items()
        ]
        measure_by_turns(bench, comparisons, rounds)
        alone_us = _alone(bench, endpoint, rounds, calls)
        lost = sum(it.metric("mcp_proxy_trace_spans_lost_total") for it in traced.values())
    assert not lost, f"{lost} spans were lost, so the figures are too good"
    result = table_of("A document call with traces", comparisons)
    everything, tenth = comparisons
    added = [_added_us(*turn) for turn in everything.turns]
    result.targets = [
        tenth.target,
        target_of(
            "CPU added, all sampled / the SDK's own for these spans",
            SDK_LIMIT,
            [each / statistics.median(alone_us) for each in added],
        ),
    ]
    result.notes.append(
        f"All sampled adds {statistics.median(added):.1f} us to a call, whose two spans take the "
        f"SDK alone {statistics.median(alone_us):.1f} us, the export included."
    )
    return result


def _started(bench: Bench, stack: ExitStack, folder: Path, settings: Mapping[str, str]) -> Server:
    service = stack.enter_context(gateway(bench.workdir, folder, {**NO_CALL_REFUSED, **settings}))
    service.wait_for(section_calls(DOC_ID)[0])
    return service


def _alone(bench: Bench, endpoint: Mapping[str, str], rounds: int, calls: int) -> Sequence[float]:
    file = bench.workdir / "spans.json"
    command = [sys.executable, "-m", "benchmarks.span_load", str(rounds), str(calls), str(file)]
    subprocess.run(command, cwd=ROOT, env=dict(endpoint), check=True)  # noqa: S603 - our own program
    found: Sequence[float] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _added_us(traced: Measured, off: Measured) -> float:
    return (traced.cpu_ms - off.cpu_ms) * 1000
