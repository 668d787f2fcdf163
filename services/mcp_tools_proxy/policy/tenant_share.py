"""How much of what all tenants share one of them may take."""


def tenant_share(limit: int) -> int:
    """Return how many of ``limit`` places one tenant may take: all but a quarter.

    Where there are two or more, at least one is left to others, so that no tenant can shut the
    others out.
    """
    return max(1, limit - max(1, limit // 4))
