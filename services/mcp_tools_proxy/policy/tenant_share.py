"""The share of a common limit that one tenant may use."""


def tenant_share(limit: int) -> int:
    """Return how many of ``limit`` slots one tenant may use: all but a quarter.

    With two slots or more at least one stays free for others, so that no tenant can lock the
    others out.
    """
    return max(1, limit - max(1, limit // 4))
