"""The command line: ``python -m benchmarks.peers [--rounds N] [--calls N] [NAME …]``."""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.bench import QUICK, open_bench
from benchmarks.command_line import check_names, run
from benchmarks.peers.catalogue import PEERS
from benchmarks.peers.comparison import measure_peers
from benchmarks.report import facts, load_average


def main() -> int:
    """Fetch and measure the peers that were named; 1 when an answer was wrong."""
    arguments = _arguments()
    sizes = replace(QUICK, pages=1, ratio_rounds=arguments.rounds, ratio_calls=arguments.calls)
    peers = [peer for peer in PEERS if peer.key in (arguments.names or [peer.key])]
    print(f"# Peers\n\n{facts()}\n")
    with (
        tempfile.TemporaryDirectory(prefix="mcp-tools-proxy-peers-") as workdir,
        open_bench(Path(workdir), sizes) as bench,
    ):
        print(measure_peers(bench, peers).markdown() + "\n")
    print(f"Wrong answers: {bench.errors}. Load average {load_average()} at the end.")
    return 1 if bench.errors else 0


def _arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    keys = [peer.key for peer in PEERS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default: %(default)s)")
    parser.add_argument(
        "--calls",
        type=int,
        default=600,
        help="calls of a turn at one connection, twice as many at 32 (default: %(default)s)",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"peers: {', '.join(keys)}")
    parsed = parser.parse_args(argv)
    check_names(parser, parsed.names, keys)
    return parsed


if __name__ == "__main__":
    run(main)
