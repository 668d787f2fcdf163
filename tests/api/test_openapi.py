"""The OpenAPI document is true: schemathesis finds no answer that it does not describe."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from mcp_tools_proxy.app import create_app
from mcp_tools_proxy.settings import Settings

schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(Settings(_env_file=None)))


@schema.parametrize()
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_every_answer_is_described(case: schemathesis.Case[Any]) -> None:
    response = case.call()
    if response.status_code == 503:
        assert response.json().get("error", {}).get("code", "not ready") in {
            "RETRIEVAL_NOT_CONFIGURED",
            "not ready",
        }
        case.validate_response(response, excluded_checks=[not_a_server_error])
    else:
        case.validate_response(response)


@pytest.mark.parametrize(
    "path",
    ["/internal/mcp/execute", "/internal/mcp/execute/batch", "/internal/mcp/tools", "/health",
     "/health/ready", "/metrics"],
)  # fmt: skip
def test_every_route_is_described(path: str) -> None:
    assert path in schema.raw_schema["paths"]
