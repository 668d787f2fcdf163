"""The OpenAPI document of the whole service, loaded by schemathesis."""

import os

import schemathesis
from hypothesis import HealthCheck, settings
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.documents.open_documents import seed_documents
from mcp_tools_proxy.settings.settings import Settings
from tests.support.bounds import BOUND_S

UNLIMITED = {
    f"rate_limit_{name}": 0 for name in ("calls", "tokens", "tenant_calls", "tenant_tokens")
}
app = create_app(
    Settings.model_validate(
        {"_env_file": None, "require_agent": False, "allowed_hosts": "testserver", **UNLIMITED}
    )
)  # without the lifespan agents.json is never read, so an agent would be required
for document in seed_documents():
    app.state.gateway.repository.hold(document)


async def without_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the application; schemathesis would start and stop it for each call."""
    if scope["type"] != "lifespan":
        await app(scope, receive, send)
        return
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


schema = schemathesis.openapi.from_asgi("/openapi.json", without_lifespan, timeout=BOUND_S)
schema.config.phases.coverage.enabled = "BOUNDARIES" in os.environ  # noqa: TID251 - of test_openapi.py
quietly = settings(
    # with BOUNDARIES in addition to a few hundred cases, the same in each run
    max_examples=min(12, settings().max_examples),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)
