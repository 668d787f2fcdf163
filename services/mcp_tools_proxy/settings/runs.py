"""Settings of runs and policies."""

from datetime import UTC, tzinfo
from typing import Annotated, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, SecretStr, model_validator

from mcp_tools_proxy.domain.run import RunQuota
from mcp_tools_proxy.settings.types import (
    POSTGRES_SCHEMES,
    REDIS_SCHEMES,
    Budget,
    Count,
    EnvironmentSettings,
    empty_is_unset,
    is_webhook_secret,
    starting_with,
    variable,
)


def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


def _is_time_zone(name: str) -> str:
    """Return a time zone's name. Raises ValueError."""
    try:
        _zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            "should be a time zone of the IANA database, such as Europe/Berlin; if that is not "
            "known either, install tzdata"
        ) from None
    return name


class RunSettings(EnvironmentSettings):
    """Where the memory of runs is kept, for how long, and the clock of policies."""

    runs_url: Annotated[
        SecretStr | None,
        BeforeValidator(empty_is_unset),
        starting_with(*REDIS_SCHEMES, *POSTGRES_SCHEMES),
    ] = None
    """Redis that never evicts keys, or PostgreSQL with the schema of ``documents migrate``, for the
    memory of runs, shared by replicas. Unset: the Redis of state_url or of the budgets, otherwise
    this process. state_key encrypts it."""
    runs_idle_s: Count = 3600
    """Seconds without a call after which a run ends and its memory is erased."""
    runs_mark_s: Count = 604_800
    """Seconds that the id of an ended run is refused."""
    runs_per_tenant: Count = 100_000
    """Maximum runs of a tenant, including ended ones whose ids are refused. A run has at most 64
    KiB, typically 4 kB, and an ended one 200 bytes."""
    runs_per_user: Count = 500
    """Maximum new runs of a user, or of a token without a user, in an hour. 500 are 84,000
    in a week, so one user cannot fill a tenant's 100,000 places."""
    runs_bytes: Count = 67_108_864
    """Maximum bytes of the runs of all tenants in this process; not for Redis and PostgreSQL."""

    runs_of_sessions: bool = False
    """Whether calls of an MCP session that name no run belong to the session's. MCP 2026-07-28 has
    no sessions."""
    run_max_calls: Budget = 0
    """Maximum calls of a run, including refused ones; 0: unlimited. The next call is answered with
    LOOP_STOPPED."""
    run_max_tokens: Budget = 0
    """Maximum result tokens of a run; 0: unlimited."""
    run_max_errors: Budget = 0
    """Maximum failed and refused calls of a run; 0: unlimited."""
    run_max_repeats: Budget = 0
    """Maximum calls of a run with the tool and arguments of an earlier one; 0: unlimited."""
    approvals_expire_s: Count = 3600
    """Seconds that a call waits for the approval of a second person."""
    approvals_valid_s: Count = 3600
    """Seconds after the decision in which an approved call can be made, once."""
    approvals_webhook: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")
    ] = None
    """Address that receives a signed request (Standard Webhooks) for each call that waits for an
    approval and each decision, without arguments."""
    approvals_webhook_secret: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_webhook_secret)
    ] = None
    """Secret of these signatures: ``whsec_`` and 24 to 64 random bytes as base64."""
    policies_time_zone: Annotated[str, AfterValidator(_is_time_zone)] = "UTC"
    """Time zone in which policies read the clock, such as ``Europe/Berlin``."""

    @model_validator(mode="after")
    def _check_webhook(self) -> Self:
        """Check that requests to the webhook are signed. Raises ValueError naming the variable."""
        if self.approvals_webhook is not None and self.approvals_webhook_secret is None:
            raise ValueError(
                f"{variable('approvals_webhook_secret')}: is required if "
                f"{variable('approvals_webhook')} is set"
            )
        return self

    @property
    def run_quota(self) -> RunQuota:
        """The limits of each run."""
        return RunQuota(
            calls=self.run_max_calls,
            tokens=self.run_max_tokens,
            errors=self.run_max_errors,
            repeats=self.run_max_repeats,
        )

    @property
    def policies_zone(self) -> tzinfo:
        """The time zone in which policies read the clock."""
        return _zone(self.policies_time_zone)
