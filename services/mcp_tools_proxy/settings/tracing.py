"""The settings of traces: whether there are any, and whom a caller's trace is believed to be.

OpenTelemetry's SDK reads all ``OTEL_…`` variables itself; of these here we need to know as well.
"""

import os
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import DotEnvSettingsSource

from mcp_tools_proxy.settings.types import EnvironmentSettings, OptionalText

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
    """Use a request's ``traceparent`` as the parent of its span. With false, it is only linked."""
    otlp_endpoint: Annotated[
        OptionalText, Field(validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT", repr=False)
    ] = None
    """Base URL of the OpenTelemetry collector; ``/v1/traces`` is appended. If this and the next
    variable are unset, traces are off."""
    otlp_traces_endpoint: Annotated[
        OptionalText, Field(validation_alias="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", repr=False)
    ] = None
    """Full URL for traces, used instead of the base URL."""
    otlp_protocol: Annotated[
        OptionalText, Field(validation_alias="OTEL_EXPORTER_OTLP_PROTOCOL")
    ] = None
    """Protocol for traces: unset or ``http/protobuf``."""
    otlp_traces_protocol: Annotated[
        OptionalText, Field(validation_alias="OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    ] = None
    """Protocol for traces, used instead of the previous variable."""
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
