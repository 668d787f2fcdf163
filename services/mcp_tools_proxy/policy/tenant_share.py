"""The share of a common limit that one tenant may use."""


def tenant_share(limit: int) -> int:
    """Return how many of ``limit`` slots one tenant may use: all but a quarter.

    With two slots or more at least one stays free for others, so that no tenant can lock the
    others out.
    """
    return max(1, limit - max(1, limit // 4))


def has_share(size: int, *, of_tenant: int, used: int, limit: int) -> bool:
    """Return whether a tenant may use ``size`` more of ``limit``; nothing that is kept has to go.

    The tenant uses ``of_tenant``, all together use ``used``. Of three quarters it may use as much
    as it leaves free: one alone three eighths of all. The last quarter is for tenants that come
    when others have used theirs up: a 128th of all for each.
    """
    free, wanted = limit - used, of_tenant + size
    return wanted <= free - limit // 4 or (wanted <= limit // 128 and size <= free)
