"""The settings of audit records and traces; the ``audit`` commands read those of the audit only.

OpenTelemetry's SDK reads all ``OTEL_…`` variables itself; the gateway needs those that are settings
here as well.
"""

import os
import socket
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import DotEnvSettingsSource

from mcp_tools_proxy.settings.types import (
    MIN_KEY_CHARS,
    Count,
    EnvironmentSettings,
    OptionalPath,
    OptionalText,
    variable,
)
from mcp_tools_proxy.telemetry.audit.audit_paths import HOST, WORKER

TO_LOG = "log"
TO_FILE = "file:"


def _is_destination(value: str) -> str:
    if value != TO_LOG and not value.removeprefix(TO_FILE).strip():
        raise ValueError("should be log, or file: and a path")
    if value != TO_LOG and not value.startswith(TO_FILE):
        raise ValueError("should be log, or start with file:")
    return value


class AuditSettings(EnvironmentSettings):
    """Where the records of all attempts go."""

    audit: Annotated[str, AfterValidator(_is_destination)] = TO_LOG
    """Destination of audit records: ``log``, or ``file:PATH`` for the log and a file. ``{host}`` is
    replaced by the host name, ``{worker}`` by the number of the worker process."""
    audit_key_file: OptionalPath = None
    """File with a key of at least 32 characters that signs the records in the file."""
    audit_required: bool = False
    """Refuse calls whose record cannot be written to the file."""
    audit_max_bytes: Count = 104_857_600
    """Maximum bytes of an audit file before a new one is started."""
    audit_keep_files: Count = 10
    """Full audit files to keep; the oldest is deleted and recorded."""
    audit_unauthenticated_bytes: Count = 104_857_600
    """Maximum bytes of the separate audit files for requests without a valid token, which cannot
    displace other records."""

    @property
    def audit_path(self) -> Path | None:
        """The path of the audit file; None where records go to the log only."""
        return self.audit_path_of(1)

    @property
    def audit_pattern(self) -> Path | None:
        """The path as it is set, with ``{host}`` and ``{worker}``."""
        return None if self.audit == TO_LOG else Path(self.audit.removeprefix(TO_FILE).strip())

    def audit_path_of(self, worker: int | str) -> Path | None:
        """Return the path of a worker's audit file; of all workers' files for ``{worker}``."""
        if self.audit_pattern is None:
            return None
        path = str(self.audit_pattern).replace(HOST, socket.gethostname())
        return Path(path.replace(WORKER, str(worker)))


def check_audit(settings: AuditSettings) -> None:
    """Check that what concerns a file has one; the commands name theirs. Raises ValueError."""
    for name, is_set in (
        ("audit_key_file", settings.audit_key_file is not None),
        ("audit_required", settings.audit_required),
    ):
        if is_set and settings.audit == TO_LOG:
            raise ValueError(
                f"{variable(name)}: needs an audit file; set {variable('audit')} to file:PATH"
            )


def read_key(path: Path | None) -> bytes | None:
    """Read the key of the audit; None for no path. Raises ValueError naming the variable."""
    if path is None:
        return None
    name = variable("audit_key_file")
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise ValueError(f"{name}: the file cannot be read: {error.strerror}") from None
    if len(key) < MIN_KEY_CHARS:
        raise ValueError(
            f"{name}: the key has fewer than {MIN_KEY_CHARS} characters; make one with: openssl "
            "rand -hex 32"
        )
    return key


_PREFIX = "OTEL_"
_PROTOCOL = "http/protobuf"
_EXPORTER = "otlp"
_NO_EXPORTER = "none"


def _is_true(value: object) -> object:
    """Read a boolean as OpenTelemetry does: what is not ``true`` is false."""
    return value.strip().lower() == "true" if isinstance(value, str) else value


class TracingSettings(EnvironmentSettings):
    """Whether spans are exported, and whose trace they belong to."""

    trust_traceparent: bool = True
    """Use a request's ``traceparent`` as the parent of its span; otherwise it is only linked."""
    otlp_endpoint: Annotated[
        OptionalText, Field(validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT", repr=False)
    ] = None
    """Base URL of the OpenTelemetry collector; ``/v1/traces`` is appended. Without this and the
    next variable, traces are off."""
    otlp_traces_endpoint: Annotated[
        OptionalText, Field(validation_alias="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", repr=False)
    ] = None
    """Full URL for traces, instead of the base URL."""
    otlp_protocol: Annotated[
        OptionalText, Field(validation_alias="OTEL_EXPORTER_OTLP_PROTOCOL")
    ] = None
    """Protocol for traces: unset or ``http/protobuf``."""
    otlp_traces_protocol: Annotated[
        OptionalText, Field(validation_alias="OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    ] = None
    """Protocol for traces, instead of the previous variable."""
    otel_traces_exporter: Annotated[
        OptionalText, Field(validation_alias="OTEL_TRACES_EXPORTER")
    ] = None
    """Exporter for traces: unset or ``otlp``; ``none`` turns traces off."""
    otel_sdk_disabled: Annotated[
        bool,
        BeforeValidator(_is_true),
        Field(validation_alias="OTEL_SDK_DISABLED"),
    ] = False
    """``true`` turns traces off."""

    @property
    def traces_variable(self) -> str | None:
        """The variable that turns traces on; None where they are off."""
        if self.otel_sdk_disabled or self.otel_traces_exporter == _NO_EXPORTER:
            return None
        if self.otlp_traces_endpoint is not None:
            return "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
        return None if self.otlp_endpoint is None else "OTEL_EXPORTER_OTLP_ENDPOINT"

    @model_validator(mode="after")
    def _check_traces(self) -> Self:
        """Check what only matters where traces are on. Raises ValueError naming the variable."""
        variable = self.traces_variable
        if variable is None:
            return self
        url = self.otlp_traces_endpoint or self.otlp_endpoint or ""
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{variable}: should start with http:// or https://")
        if (self.otlp_traces_protocol or self.otlp_protocol or _PROTOCOL) != _PROTOCOL:
            raise ValueError(
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: traces are sent by http/protobuf only; set "
                f"it to that, and {variable} to the collector's port for it, often 4318"
            )
        if (self.otel_traces_exporter or _EXPORTER) != _EXPORTER:
            raise ValueError("OTEL_TRACES_EXPORTER: should be otlp, or none for no traces")
        return self


def set_sdk_variables() -> None:
    """Set the ``OTEL_…`` variables of ``.env`` in the environment: the SDK reads them there only.

    Those of the environment itself win, as with all settings.
    """
    for name, value in DotEnvSettingsSource(TracingSettings).env_vars.items():
        if name.upper().startswith(_PREFIX) and value:
            os.environ.setdefault(name.upper(), value)  # noqa: TID251 - the SDK's own settings
