from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.auth.operator_tokens import AdminToken, OperatorTokens
from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier
from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.errors import Forbidden, Unauthenticated
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.http.api.endpoint import EndpointFactory, ParsedRequest
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.body import BodyLimits
from mcp_tools_proxy.http.request_refusals import RequestRefusals
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.request_events import RequestTelemetry
from tests.support.captured_logs import capture_logs
from tests.support.tables import each_row

TRACE = (b"x-trace-id", b"t-1")
ADMIN = "correct-horse-battery"
DOCUMENTS, PRESETS = OperatorRight.DOCUMENTS, OperatorRight.PRESETS
OTHERS = sorted({*OperatorRight} - {PRESETS})


def request_of(token: str | None, *, origin: str | None = None) -> ParsedRequest[None]:
    headers = {"authorization": token and f"Bearer {token}", "origin": origin}
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/internal/documents",
        "query_string": b"",
        "headers": [(name.encode(), text.encode()) for name, text in headers.items() if text],
    }
    return ParsedRequest(Request(scope), None, "t-1")


def open_gate(*, host: str = "127.0.0.1", admin_token: str | None = None) -> OperatorGate:
    """Build the gate of a service that requires no token."""
    token = None if admin_token is None else AdminToken(admin_token)
    authenticator = Authenticator(operators=OperatorTokens(token))
    return OperatorGate(host=host, authenticator=authenticator)


class TokensFile:
    """A tokens file, and the gate of a service that uses it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, *rights: OperatorRight, tenant: str | None = None) -> tuple[str, str]:
        """Add a token with these rights; return it and its id."""
        principal = Principal(tenant_id=tenant, rights=frozenset(rights))
        token, entry = add_token(self._path, principal)
        return token, entry.id

    async def gate(self) -> OperatorGate:
        """Build the gate for the current tokens of the file."""
        tokens, admin_token = TokenFileVerifier(self._path), AdminToken(ADMIN)
        await tokens.load()
        authenticator = Authenticator(tokens, OperatorTokens(admin_token))
        return OperatorGate(host="127.0.0.1", authenticator=authenticator)


@pytest.fixture
def file(tmp_path: Path) -> TokensFile:
    return TokensFile(tmp_path / "tokens.jsonl")


@pytest.mark.parametrize("right", OperatorRight)
async def test_a_right_permits_only_its_operations(file: TokensFile, right: OperatorRight) -> None:
    token, _ = file.add(right)
    gate = await file.gate()
    await gate.check(request_of(token), right)
    for other in {*OperatorRight} - {right}:
        with pytest.raises(Forbidden, match=f'"{other}"; send a token that has it'):
            await gate.check(request_of(token), other)


@pytest.mark.parametrize(
    ("tenant", "concerned", "is_admitted"),
    [
        ("acme", "acme", True),
        ("acme", "rival", False),
        ("acme", None, False),
        (None, "acme", True),
        (None, None, True),
    ],
)
@pytest.mark.parametrize("right", OTHERS)
async def test_a_right_is_limited_to_the_tenant_of_its_token(
    file: TokensFile,
    right: OperatorRight,
    tenant: str | None,
    concerned: str | None,
    *,
    is_admitted: bool,
) -> None:
    token, _ = file.add(right, tenant=tenant)
    gate = await file.gate()
    if is_admitted:
        await gate.check(request_of(token), right, tenant_id=concerned)
        return
    with pytest.raises(Forbidden) as caught:
        await gate.check(request_of(token), right, tenant_id=concerned)
    assert (f'"{right}"' in caught.value.message, "acme" in caught.value.message) == (True, False)


async def test_an_admin_token_of_a_tenant_can_still_switch_presets(file: TokensFile) -> None:
    token, _ = file.add(PRESETS, tenant="acme")
    await (await file.gate()).check(request_of(token), PRESETS)


async def test_a_token_without_rights_is_refused_but_verified(file: TokensFile) -> None:
    token, token_id = file.add(tenant="acme")
    with pytest.raises(Forbidden) as caught:
        await (await file.gate()).check(request_of(token), DOCUMENTS, tenant_id="acme")
    assert caught.value.proven == {"tenant_id": "acme", "token_id": token_id}


@pytest.mark.parametrize("right", OperatorRight)
async def test_the_admin_token_has_every_right_in_every_mode(
    file: TokensFile, right: OperatorRight
) -> None:
    for gate in (await file.gate(), open_gate(admin_token=ADMIN)):
        await gate.check(request_of(ADMIN), right, tenant_id="acme")
        with pytest.raises(Unauthenticated):
            await gate.check(request_of(ADMIN[:-1]), right)
        with pytest.raises(Unauthenticated):
            await gate.check(request_of(None), right)


async def test_without_authentication_loopback_can_switch_presets() -> None:
    await open_gate().check(request_of(None), PRESETS)


@each_row("right", OTHERS)
async def test_without_authentication_all_other_rights_are_refused(right: OperatorRight) -> None:
    with pytest.raises(Forbidden) as caught:
        await open_gate().check(request_of("any"), right, tenant_id="acme")
    assert (f'"{right}"' in caught.value.message, "ADMIN_TOKEN" in caught.value.message) == (
        True,
        True,
    )


@each_row("right", OperatorRight)
@each_row(
    ("host", "origin"),
    [("0.0.0.0", None), ("127.0.0.1", "http://localhost")],  # noqa: S104
)
async def test_without_authentication_network_and_web_pages_are_refused(
    right: OperatorRight, host: str, origin: str | None
) -> None:
    with pytest.raises(Forbidden) as caught:
        await open_gate(host=host).check(request_of(None, origin=origin), right)
    assert f'"{right}"' in caught.value.message


async def test_each_use_of_a_right_is_logged_with_the_token(file: TokensFile) -> None:
    token, token_id = file.add(DOCUMENTS)
    gate = await file.gate()
    with capture_logs() as lines:
        await use(gate, request_of(token), DOCUMENTS, tenant_id="acme")
        await use(gate, request_of(ADMIN), DOCUMENTS)
        await use(open_gate(), request_of(None), PRESETS)
    used = {
        "event": "operator.right_used",
        "log_level": "info",
        "trace_id": "t-1",
        "code": "OK",
        "right": "documents",
        "route": "GET /internal/documents",
        "entry": "api",
        "peer": "unknown",
    }
    assert lines == [
        {**used, "tenant_id": "acme", "token_id": token_id},
        {**used, "token_id": "admin_token"},
        {**used, "right": "presets", "token_id": "(loopback)"},
    ]


async def use(
    gate: OperatorGate,
    request: ParsedRequest[None],
    right: OperatorRight,
    *,
    tenant_id: str | None = None,
) -> None:
    """Serve a request whose handler only checks the right."""
    refusals = RequestRefusals(Metrics(), RequestTelemetry(AuditTrail()))

    async def handler(parsed: ParsedRequest[None]) -> Response:
        await gate.check(parsed, right, tenant_id=tenant_id)
        return Response()

    endpoints = EndpointFactory(refusals, limits=BodyLimits(max_bytes=1, max_items=1))
    scope = {**request.request.scope, "headers": [*request.request.scope["headers"], TRACE]}
    await endpoints.without_body(handler)(Request(scope))


async def test_a_refused_use_is_not_logged_as_a_use(file: TokensFile) -> None:
    token, _ = file.add(DOCUMENTS, tenant="acme")
    gate = await file.gate()
    with capture_logs() as lines:
        await use(gate, request_of(token), DOCUMENTS, tenant_id="rival")
    assert [(line["event"], line["code"]) for line in lines] == [("request.refused", "FORBIDDEN")]


async def test_all_rights_require_a_token_except_preset_switches_on_loopback(
    file: TokensFile,
) -> None:
    gates = (await file.gate(), open_gate(admin_token=ADMIN), open_gate())
    needed = [{right for right in OperatorRight if gate.needs_token(right)} for gate in gates]
    assert needed == [{*OperatorRight}, {*OperatorRight}, {*OTHERS}]
