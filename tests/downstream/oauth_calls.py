"""Calls of a server that returns the request headers, including its token."""

from pathlib import Path
from typing import Any

from tests.downstream.caller_gateway import user
from tests.support.configuration import Json
from tests.support.oauth_issuer import Issuer
from tests.support.service import Service
from tests.support.signing import AUDIENCE, key_set
from tests.support.tokens import KEY, bearer

ANN = user("acme")
TOOL = "s:headers"


async def call(service: Service, caller: Json = ANN, token: str | None = None) -> Json:
    body = {"tool_name": TOOL, "arguments": {}, **({} if token else caller)}
    headers = {} if token is None else bearer(token)
    response = await service.http.post("/internal/mcp/execute", json=body, headers=headers)
    answer: Json = response.json()
    return answer


def code(answer: Json) -> str:
    return "OK" if answer["status"] == "ok" else str(answer["error"]["code"])


def sent_token(answer: Json) -> str:
    assert answer["status"] == "ok", answer
    headers: Json = answer["result"]["structured_content"]
    return str(headers["authorization"]).removeprefix("Bearer ")


def last_reason(service: Service) -> str:
    payloads: list[Any] = [it["payload"] for it in service.gateway.audit.recent()]
    return str([it for it in payloads if it["code"] != "OK"][-1]["reason"])


def jwt_of(issuer: Issuer, **claims: object) -> str:
    named: Json = {"tenant_id": "acme", "sub": "ann", **claims}
    return KEY.sign(iss=issuer.url, **named)


def jwt_settings(issuer: Issuer) -> dict[str, Any]:
    Path("jwks.json").write_bytes(key_set(KEY))
    return {
        "auth_mode": "jwt",
        "jwt_issuer": issuer.url,
        "jwt_audience": (AUDIENCE,),
        "jwt_jwks_file": "jwks.json",
    }
