"""The share of a common limit that one tenant may use."""


def tenant_share(limit: int) -> int:
    """Return how many of ``limit`` slots one tenant may use: all but a quarter.

    With two slots or more at least one stays free for others, so that no tenant can lock the
    others out.
    """
    return max(1, limit - max(1, limit // 4))


def has_share(size: int, *, of_tenant: int, used: int, limit: int) -> bool:
    """Return whether a tenant may use ``size`` more of ``limit``.

    The tenant uses ``of_tenant``, all together use ``used``. It may use as much as it leaves free:
    one alone half, each of three a quarter. So each finds room, and nothing kept has to go.
    """
    return of_tenant + size <= limit - used
