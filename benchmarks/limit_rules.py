"""What rules of limits.json that do not match cost: 1,000 of which four match, beside the four."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle, islice
from pathlib import Path

from benchmarks.bench import Bench, Measured
from benchmarks.corpus import TENANT
from benchmarks.echo_calls import posted
from benchmarks.facade import DOC_ID
from benchmarks.messages import OK, section_calls
from benchmarks.paired import Comparison, Turn, measure_by_turns, table_of
from benchmarks.report import Result
from benchmarks.servers import NO_CALL_REFUSED, Server, gateway

LIMIT = 1.05
RULES = 1000
CONNECTIONS = (1, 16)

_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUsersTurn(Turn):
    """Calls of a new user each: the rules of none of them are in a cache."""

    def measure(self, bench: Bench) -> Measured:
        """Measure them, warmed up before."""
        for share in (self.warm_up_share, 1.0):
            calls = max(20, int(self.job.calls * share))
            job = replace(
                self.job, calls=calls, bodies=[*islice(_of_new_users(self.job.bodies), calls)]
            )
            measured = bench.measure(self.server, job, self.load)
        return measured


def measure_limit_rules(bench: Bench) -> Result:
    """Measure document calls with many rules and with those that match alone, by turns."""
    matching = _matching()
    documents = bench.folder("limit-rules", DOC_ID)
    many = _configured(bench.workdir / "limits-many", [*_others(), *matching])
    few = _configured(bench.workdir / "limits-few", matching)
    with (
        gateway(bench.workdir, documents, many) as with_many,
        gateway(bench.workdir, documents, few) as with_few,
    ):
        for server in (with_many, with_few):
            server.wait_for(section_calls(DOC_ID)[0])
        comparisons = [
            Comparison(
                name=f"read_doc_section with {RULES} rules of which four match / with the four{of}",
                limit=LIMIT,
                ours=_turn(with_many, connections, bench, kind),
                other=_turn(with_few, connections, bench, kind),
            )
            for connections in CONNECTIONS
            for of, kind in (("", Turn), (", each call of a new user", NewUsersTurn))
        ]
        measure_by_turns(bench, comparisons, bench.sizes.ratio_rounds)
    return table_of("CPU of a call with rules of limits.json, in memory", comparisons)


def _turn(server: Server, connections: int, bench: Bench, kind: type[Turn]) -> Turn:
    plain = posted(
        server, section_calls(DOC_ID), OK, connections, bench.sizes.ratio_calls_at(connections)
    )
    return kind(server=server, job=plain.job)


def _configured(folder: Path, rules: Sequence[Mapping[str, object]]) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "limits.json").write_text(json.dumps({"rules": rules}), encoding="utf-8")
    return {**NO_CALL_REFUSED, "MCP_PROXY_CONFIG_DIR": str(folder)}


def _rule(name: str, match: Mapping[str, object], *each: str) -> dict[str, object]:
    more = {"each": [*each]} if each else {}
    return {"name": name, "match": match, "calls": 10**12, "window_s": 3600, **more}


def _matching() -> list[dict[str, object]]:
    return [
        _rule("of-all", {}),
        _rule("of-tenant", {"tenant": TENANT}),
        _rule("per-user", {"tool": "read_doc_section"}, "user"),
        _rule("per-document", {"tenant": TENANT, "document": DOC_ID}, "document"),
    ]


def _others() -> list[dict[str, object]]:
    """Return rules that have a value in common with the calls, and one that none of them has."""
    values: Sequence[dict[str, str]] = (
        {"tenant": TENANT},
        {"tool": "read_doc_section"},
        {"document": DOC_ID},
        {},
    )
    return [
        _rule(f"other-{number}", {**values[number % 4], "user": f"other {number}"})
        for number in range(RULES - 4)
    ]


def _of_new_users(bodies: Sequence[str]) -> Iterator[str]:
    for body in cycle(bodies):
        parsed = json.loads(body)
        user = {**parsed["user"], "user_id": f"user-{next(_numbers)}"}
        yield json.dumps({**parsed, "user": user})
