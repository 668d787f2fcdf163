"""A replica in a separate process: 150 parallel calls against the limits in one Redis.

Prints ready, waits for a line, then prints how many calls passed and the place that counted them.
"""

import asyncio
import sys

from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.domain.errors import RateLimitExceeded
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import build_limiter
from mcp_tools_proxy.telemetry.metrics import Metrics


async def main() -> None:
    budgets = BudgetLimits(
        document_calls=37, document_tokens=1000, tenant_calls=600, tenant_tokens=1000, window_s=60
    )
    limiter = build_limiter(budgets, storage_url=sys.argv[1], metrics=Metrics())
    await limiter.connect()
    print("ready", flush=True)  # noqa: T201 - read by the test
    sys.stdin.readline()
    outcomes = await asyncio.gather(
        *(limiter.admit(ChargedCall("a", doc_id="b")) for _ in range(150)), return_exceptions=True
    )
    refused = sum(isinstance(outcome, RateLimitExceeded) for outcome in outcomes)
    print(len(outcomes) - refused, limiter.state, flush=True)  # noqa: T201 - read by the test
    await limiter.close()


if __name__ == "__main__":
    asyncio.run(main())
