"""Calls that wait for the approval of a person, decisions, and the use of an approval."""

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class ApprovalRecord(BaseModel):
    """A record of an approval; ``PART`` names its kind."""

    PART: ClassVar[str]
    model_config = ConfigDict(frozen=True)


class AskedPolicy(BaseModel):
    """A policy that stops the call. ``approvers`` is its annotation, empty without one."""

    model_config = ConfigDict(frozen=True)

    policy_id: str
    message: str | None = None
    approvers: tuple[str, ...] = ()


class AskedFacts(BaseModel):
    """A caller and the requested call, without its arguments.

    ``token`` has the log fields of the token that the call was sent with, ``operator_id`` is the
    operator who acted for the user, if known. With ``user_is_unproved``, only the request names
    the user.
    """

    model_config = ConfigDict(frozen=True)

    approval_id: str
    tenant_id: str
    user_id: str
    token: Mapping[str, str]
    is_stand_in: bool = False
    user_is_unproved: bool = False
    operator_id: str = ""
    agent: str | None = None
    run_id: str | None = None
    tool: str
    server_id: str | None = None
    policies: tuple[AskedPolicy, ...]
    asked_at: datetime
    expires_at: datetime

    @property
    def policy_ids(self) -> list[str]:
        """The ids of the policies that stop the call."""
        return [it.policy_id for it in self.policies]


class AskedCall(ApprovalRecord):
    """A call that waits for a person. The record is removed with the decision.

    ``owner`` and ``run`` are digests of the user and the run, ``refusal_key`` one of the call in
    its run, ``call_key`` one of the call of this asker in any run.
    """

    PART = "asked"
    facts: AskedFacts
    refusal_key: str
    call_key: str
    owner: str
    run: str | None


class AskedArguments(ApprovalRecord):
    """The arguments of a waiting call as JSON, removed with it.

    Separate, because each new call reads all that wait: 200 with 64 KiB took 10 ms and 13 MB.
    """

    PART = "arguments"
    arguments: str


class Decision(ApprovalRecord):
    """The decision of ``decided_by``. An approval can be used until ``valid_until``."""

    PART = "decision"
    facts: AskedFacts
    approved: bool
    decided_by: str
    decided_at: datetime
    valid_until: datetime
    note: str = ""


class Use(ApprovalRecord):
    """The one use of an approval, written before the call is sent.

    ``claim`` is random: of several replicas, the one that reads its own may send the call. ``code``
    is its outcome; None while the call runs, and for ever if the gateway stopped meanwhile.
    """

    PART = "use"
    claim: str
    used_at: datetime
    code: str | None = None


class UsedApprovals(ApprovalRecord):
    """The approvals that the same call of an asker has used, the latest last."""

    PART = "used"
    approval_ids: tuple[str, ...]


class BoundApproval(ApprovalRecord):
    """The approval that belongs to a binding."""

    PART = "bound"
    approval_id: str


class RefusedCall(ApprovalRecord):
    """A person refused the call in its run."""

    PART = "refusal"
    approval_id: str
    note: str = ""
