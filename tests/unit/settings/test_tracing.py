import os
from pathlib import Path

import pytest

from mcp_tools_proxy.settings.observability import set_sdk_variables
from mcp_tools_proxy.settings.settings import SettingsError, load_settings
from tests.support.tables import each_row

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
COLLECTOR = "http://collector:4318"


@each_row(
    ("variables", "on_by"),
    [
        ({}, None),
        ({ENDPOINT: COLLECTOR}, ENDPOINT),
        ({TRACES_ENDPOINT: COLLECTOR}, TRACES_ENDPOINT),
        ({ENDPOINT: COLLECTOR, TRACES_ENDPOINT: COLLECTOR}, TRACES_ENDPOINT),
        ({ENDPOINT: " "}, None),
        ({ENDPOINT: COLLECTOR, "OTEL_SDK_DISABLED": "TRUE"}, None),
        ({ENDPOINT: COLLECTOR, "OTEL_SDK_DISABLED": "yes"}, ENDPOINT),
        ({ENDPOINT: COLLECTOR, "OTEL_SDK_DISABLED": ""}, ENDPOINT),
        ({ENDPOINT: COLLECTOR, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({ENDPOINT: COLLECTOR, "OTEL_TRACES_EXPORTER": "otlp"}, ENDPOINT),
        ({ENDPOINT: COLLECTOR, PROTOCOL: "http/protobuf"}, ENDPOINT),
        ({ENDPOINT: COLLECTOR, PROTOCOL: "grpc", TRACES_PROTOCOL: "http/protobuf"}, ENDPOINT),
        ({"OTEL_TRACES_EXPORTER": "console", PROTOCOL: "grpc"}, None),
    ],
)
def test_an_endpoint_turns_traces_on_unless_another_variable_disables_them(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], on_by: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert load_settings().traces_variable == on_by


@each_row(
    ("variables", "named"),
    [
        ({ENDPOINT: "secret:4317"}, ENDPOINT),
        ({TRACES_ENDPOINT: "secret:4317"}, TRACES_ENDPOINT),
        ({ENDPOINT: COLLECTOR, PROTOCOL: "grpc"}, TRACES_PROTOCOL),
        ({ENDPOINT: COLLECTOR, TRACES_PROTOCOL: "http/json"}, TRACES_PROTOCOL),
        ({ENDPOINT: COLLECTOR, "OTEL_TRACES_EXPORTER": "console"}, "OTEL_TRACES_EXPORTER"),
    ],
)
def test_an_unusable_exporter_stops_the_start_with_one_line(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], named: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    message = str(caught.value)
    assert (message.startswith(f"{named}: "), "\n" in message, "secret" in message) == (
        True,
        False,
        False,
    )


def test_variables_of_the_dotenv_file_are_passed_to_the_sdk_unless_already_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = ("OTEL_SERVICE_NAME=file", "OTEL_BSP_SCHEDULE_DELAY=file", "OTEL_EMPTY=", "OTHER=file")
    Path(".env").write_text("\n".join(lines), encoding="utf-8")
    for name in ("OTEL_SERVICE_NAME", "OTEL_EMPTY", "OTHER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "undone at the end")
    monkeypatch.delenv("OTEL_SERVICE_NAME")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "environment")
    set_sdk_variables()
    found = {name: os.environ.get(name) for name in ("OTEL_SERVICE_NAME", "OTEL_EMPTY", "OTHER")}  # noqa: TID251 - the value set
    assert found == {"OTEL_SERVICE_NAME": "file", "OTEL_EMPTY": None, "OTHER": None}
    assert os.environ["OTEL_BSP_SCHEDULE_DELAY"] == "environment"  # noqa: TID251 - the value set
