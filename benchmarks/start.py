"""Target 5: from the start of the process to its first answer."""

import statistics
import time

from benchmarks.bench import Bench
from benchmarks.memory import call_without_document
from benchmarks.messages import EXECUTE
from benchmarks.report import Result, Target
from benchmarks.servers import bare, gateway


def measure_start(bench: Bench) -> Result:
    """Start the service and a bare app with the same imports by turns."""
    body, documents = call_without_document(), bench.folder("start")
    with gateway(bench.workdir, documents) as server:  # also writes the bytecode
        server.wait_for(body)
        answer = server.request(EXECUTE, body)
    own: list[float] = []
    other: list[float] = []
    for number in range(bench.sizes.starts + 1):
        bench.show_progress(f"  start: round {number} of {bench.sizes.starts}")
        begun = time.perf_counter()
        with gateway(bench.workdir, documents) as server:
            server.wait_for(body)
            own.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        with bare("imports", bench.workdir, answer) as server:
            server.wait_for(body)
            other.append(time.perf_counter() - begun)
    service, app = statistics.median(own[1:]), statistics.median(other[1:])
    result = Result(
        "Start to first answer",
        ("candidate", "s"),
        [
            ("service", f"{service:.3f}"),
            ("bare FastAPI app that imports the same libraries", f"{app:.3f}"),
        ],
    )
    result.targets = [
        Target(name="start / bare app's start", limit=1.3, measured=service / app, unit="x")
    ]
    return result
