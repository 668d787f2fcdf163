"""The headers ``RateLimit`` and ``RateLimit-Policy`` of draft-ietf-httpapi-ratelimit-headers-11."""

from functools import lru_cache

from mcp_tools_proxy.domain.budget import BudgetStatus, Unit

RATE_LIMIT_HEADER = "RateLimit"
POLICY_HEADER = "RateLimit-Policy"

LARGEST = 999_999_999_999_999
"""The largest integer of structured fields (RFC 9651 §3.3.1); larger numbers are shown as this."""


def add_rate_limit(headers: dict[str, str], status: BudgetStatus) -> None:
    """Add what is left of a budget, and the policy that it follows.

    A rule that limits calls and tokens is two policies: shown is the one with less left.
    """
    is_one_of_two = status.remaining_calls is not None and status.remaining_tokens is not None
    name, policy = _policy(status.name, status.unit, status.limit, status.window_s, is_one_of_two)
    headers[RATE_LIMIT_HEADER] = f"{name};r={min(status.remaining, LARGEST)};t={status.reset_s}"
    headers[POLICY_HEADER] = policy


@lru_cache(maxsize=2048)  # of 1,000 rules each has one, or two
def _policy(
    name: str, unit: Unit, limit: int, window_s: int, is_one_of_two: bool
) -> tuple[str, str]:
    """Return the name of a policy as a structured field, and the policy.

    No two policies have one name: a dot is in no rule's. ``tokens`` is no registered unit.
    """
    quoted = f'"{name}.{unit}"' if is_one_of_two else f'"{name}"'
    measured = ';qu="tokens"' if unit == "tokens" else ""
    return quoted, f"{quoted};q={min(limit, LARGEST)}{measured};w={window_s}"
