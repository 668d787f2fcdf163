"""What narrowing costs: sessions for each tenant, bound arguments, bound documents."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.calls import CONNECTIONS
from benchmarks.configuration import over_http, write_configuration
from benchmarks.corpus import TENANT
from benchmarks.echo import ECHO_FOR
from benchmarks.echo_calls import TEXTS, posted
from benchmarks.facade import DOC_ID
from benchmarks.fleet import wait_until_ready
from benchmarks.messages import OK, call, section_calls
from benchmarks.paired import Comparison, Turn, measure_by_turns, table_of
from benchmarks.report import Result
from benchmarks.responder import MODERN_PATH
from benchmarks.servers import Server, fleet, gateway

ISOLATED_LIMIT = 1.10
BOUND_LIMIT = 1.05
DOCUMENT_LIMIT = 1.03
TENANTS = 100
PRESET = "narrowed"
PLAIN, ISOLATED, BOUND = "plain", "isolated", "bound"


def measure_narrowed_calls(bench: Bench) -> Result:
    """Measure each narrowing beside the same calls without it, by turns."""
    with ExitStack() as stack:
        (downstream,) = stack.enter_context(fleet(bench.workdir))
        service = stack.enter_context(
            gateway(bench.workdir, bench.folder("narrowed", DOC_ID), _configured(bench, downstream))
        )
        wait_until_ready(service, 3)
        comparisons = [
            comparison
            for connections in CONNECTIONS
            for comparison in _comparisons(bench, service, connections)
        ]
        measure_by_turns(bench, comparisons, bench.sizes.ratio_rounds)
    return table_of("CPU of a call of which the model may not choose all", comparisons)


def _configured(bench: Bench, downstream: Server) -> Mapping[str, str]:
    plain = over_http(downstream.port, MODERN_PATH)
    servers = {
        PLAIN: plain,
        ISOLATED: {**plain, "isolation": "tenant", "maxSessions": 2 * TENANTS},
        BOUND: {**plain, "bind": {"tenant": "${caller.tenant_id}"}},
    }
    tools = [(server_id, ECHO_FOR) for server_id in servers]
    return write_configuration(bench.workdir / "narrowed-config", servers, {PRESET: tools})


def _comparisons(bench: Bench, service: Server, connections: int) -> Sequence[Comparison]:
    calls = bench.sizes.ratio_calls_at(connections)

    def turn(bodies: Sequence[str]) -> Turn:
        return posted(service, bodies, OK, connections, calls)

    sections = section_calls(DOC_ID)
    return [
        Comparison(
            name=f"a session for each of {TENANTS} tenants / one session",
            limit=ISOLATED_LIMIT,
            ours=turn(_of_tenants(ISOLATED)),
            other=turn(_of_tenants(PLAIN)),
        ),
        Comparison(
            name="a bound argument / the caller's own",
            limit=BOUND_LIMIT,
            ours=turn([call(f"{BOUND}:{ECHO_FOR}", text=text) for text in TEXTS]),
            other=turn([call(f"{PLAIN}:{ECHO_FOR}", text=text, tenant=TENANT) for text in TEXTS]),
        ),
        Comparison(
            name="read_doc_section with bound documents / without",
            limit=DOCUMENT_LIMIT,
            ours=turn([_changed(body, documents=[DOC_ID, "another"]) for body in sections]),
            other=turn(sections),
        ),
    ]


def _of_tenants(server_id: str) -> Sequence[str]:
    return [
        _changed(
            call(f"{server_id}:{ECHO_FOR}", text=text, tenant="t"),
            user={"user_id": "bench-user", "tenant_id": f"tenant-{number % TENANTS}"},
        )
        for number, text in enumerate(TEXTS)
    ]


def _changed(body: str, **fields: object) -> str:
    return json.dumps({**json.loads(body), **fields}, separators=(",", ":"))
