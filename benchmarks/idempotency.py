"""Added cost of a new idempotency key per call, with records in memory."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle, islice, product

from benchmarks.bench import Bench, Measured
from benchmarks.echo_calls import TEXTS, TOOL, echo_configuration, posted
from benchmarks.facade_messages import DOC_ID
from benchmarks.fleet import wait_until_ready
from benchmarks.messages import OK, call, section_calls
from benchmarks.paired import Comparison, Turn, measure_by_turns, table_of
from benchmarks.report import Result
from benchmarks.servers import NO_CALL_REFUSED, fleet, gateway

LIMIT_US = 25.0

CONNECTIONS = (1, 16)
"""With one connection, the server sleeps between calls, which then find cold caches and
cost more.
"""

KEPT_WHILE_MEASURED = {
    **NO_CALL_REFUSED,
    "MCP_PROXY_IDEMPOTENCY_BYTES": str(2**30),
    "MCP_PROXY_IDEMPOTENCY_TTL_S": "5",
}

_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTurn(Turn):
    """Calls with a new key each, including the warm-up, so that none is replayed."""

    def measure(self, bench: Bench) -> Measured:
        """Measure the calls after a warm-up."""
        for share in (self.warm_up_share, 1.0):
            calls = max(20, int(self.job.calls * share))
            bodies = list(islice(_keyed(self.job.bodies), calls))
            job = replace(self.job, calls=calls, bodies=bodies, expected_each=[])
            measured = bench.measure(self.server, job, self.load)
        return measured


def measure_idempotency(bench: Bench) -> Result:
    """Measure document and downstream calls with and without a key."""
    comparisons = []
    with fleet(bench.workdir) as (downstream,):
        settings = {**echo_configuration(bench.workdir / "keys-config", downstream)}
        documents = bench.folder("keys", DOC_ID)
        with gateway(bench.workdir, documents, settings | KEPT_WHILE_MEASURED) as service:
            wait_until_ready(service, 1)
            echoes = [call(TOOL, text=text) for text in TEXTS]
            for (what, bodies), connections in product(
                (
                    ("read_doc_section", section_calls(DOC_ID)),
                    ("downstream call", echoes),
                ),
                CONNECTIONS,
            ):
                plain = posted(service, bodies, OK, connections, bench.sizes.ratio_calls)
                comparisons.append(
                    Comparison(
                        name=f"{what} with a key, added CPU",
                        limit=LIMIT_US,
                        ours=KeyedTurn(server=plain.server, job=plain.job),
                        other=plain,
                        figure=lambda ours, other: (ours.cpu_ms - other.cpu_ms) * 1000,
                        unit="µs",
                    )
                )
            measure_by_turns(bench, comparisons, bench.sizes.ratio_rounds)
    return table_of("CPU of a call with an idempotency key, in memory", comparisons)


def _keyed(bodies: Sequence[str]) -> Iterator[str]:
    for body in cycle(bodies):
        yield json.dumps({**json.loads(body), "idempotency_key": f"key-{next(_numbers):012}"})
