"""The annotation ``@approvers`` of policies: the people who may approve a stopped call."""

OWN = "self"
"""Lets the user who asked for the call approve it."""

_ROLE = "role:"


def role_of(approver: str) -> str | None:
    """Return the role that an approver names, if any."""
    return approver.removeprefix(_ROLE) if approver.startswith(_ROLE) else None


def approvers_in(written: str) -> tuple[str, ...]:
    """Return the approvers of an annotation. Raises ValueError that quotes an unknown one."""
    found = tuple(dict.fromkeys(written.replace(",", " ").split()))
    for it in found:
        if it != OWN and not role_of(it):
            raise ValueError(it)
    return found
