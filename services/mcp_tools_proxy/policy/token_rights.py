"""Limits of token management: a token can only manage tokens with equal or fewer rights."""

from collections.abc import Callable, Mapping

from mcp_tools_proxy.domain.identity import Principal


def excess_of(wanted: Principal, holder: Principal) -> str | None:
    """Return the first field in which ``wanted`` exceeds ``holder``; None if no field does."""
    return next(
        (field for field, is_within in _WITHIN.items() if not is_within(wanted, holder)), None
    )


def _is_part(wanted: frozenset[str] | None, limit: frozenset[str] | None) -> bool:
    return limit is None or (wanted is not None and wanted <= limit)


def may_name_any_user(holder: Principal) -> bool:
    """Return whether the holder may act for any user with any role.

    A token without a user can still have roles, which it cannot exceed.
    """
    is_of_all = holder.tenant_id is None and holder.user_id is None and not holder.roles
    return holder.asserts_users or is_of_all


_WITHIN: Mapping[str, Callable[[Principal, Principal], bool]] = {
    "tenant_id": lambda wanted, holder: holder.tenant_id in (None, wanted.tenant_id),
    "user_id": lambda wanted, holder: holder.user_id in (None, wanted.user_id),
    "asserts_users": lambda wanted, holder: not wanted.asserts_users or may_name_any_user(holder),
    "roles": lambda wanted, holder: may_name_any_user(holder) or {*wanted.roles} <= {*holder.roles},
    "agents": lambda wanted, holder: _is_part(wanted.agents, holder.agents),
    "documents": lambda wanted, holder: _is_part(wanted.documents, holder.documents),
    "rights": lambda wanted, holder: wanted.rights <= holder.rights,
    "execute": lambda wanted, holder: holder.executes or not wanted.executes,
}
