"""Replaces two pods under load and prints how every request ended: ``make roll-out``."""

import asyncio
import sys
import time

from tests.roll_out.pods import Client, Cluster, Pod, cluster

SETTLE_S = 3.0
"""Seconds under load before and after each replacement."""

PROPAGATION_S = 2.0
"""Seconds after SIGTERM during which callers still try a pod: longer than nodes need."""


async def main() -> int:
    """Return the exit code: 1 if a request ended in an unexpected way."""
    async with cluster() as pods:
        running = [await pods.start_pod(), await pods.start_pod()]
        client = await pods.client()
        for pod in running:
            await client.add(pod)
        await asyncio.sleep(SETTLE_S)
        for old in running:
            await replace(pods, client, old)
        report = await client.stop()
    print(f"{report['calls']} calls have their result; requests ended in {report['ends']}")
    return 1 if report["unexpected"] else 0


async def replace(pods: Cluster, client: Client, old: Pod) -> None:
    """Replace one pod like a Deployment with maxUnavailable 0."""
    begun = time.monotonic()
    new = await pods.start_pod()
    calls = await client.add(new)
    ready_s = time.monotonic() - begun
    print(f"{new.name} is ready after {ready_s:.1f} s; {calls} calls so far", flush=True)
    await asyncio.sleep(SETTLE_S)
    peak = await old.peak_mib()
    begun = time.monotonic()
    exit_code = await old.stop()
    taken_s = time.monotonic() - begun
    print(
        f"{old.name}: exit code {exit_code} after {taken_s:.1f} s, at most {peak} MiB", flush=True
    )
    await asyncio.sleep(PROPAGATION_S)
    await client.remove(old)
    await asyncio.sleep(SETTLE_S)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
