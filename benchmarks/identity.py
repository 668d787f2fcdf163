"""What proving who calls costs a document call: nothing asked, a token, a JWT."""

import json
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from benchmarks.bench import Bench, Measured, medians
from benchmarks.corpus import TENANT
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, OK, section_calls
from benchmarks.report import Result, Target
from benchmarks.servers import NO_CALL_REFUSED, Server, gateway
from mcp_tools_proxy.auth.token_format import new_token, sha256_of
from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import Principal

LIMITS = {"token": 1.05, "jwt": 1.25}
"""What a call may cost with it, against what it costs without."""

ISSUER = "https://issuer.example"
AUDIENCE = "mcp-tools-proxy"
OTHER_TOKENS = 1_000

_WARM_UP = 0.2


@dataclass(frozen=True, slots=True)
class Mode:
    """Settings of an ``auth_mode``, and the headers of a caller who proves who it is."""

    settings: Mapping[str, str]
    headers: dict[str, str]


def measure_identity(bench: Bench) -> Result:
    """Compare read_doc_section in the three modes, round by round, each in a process of its own."""
    modes = {
        "none": Mode({}, {}),
        "token": token_mode(bench.workdir),
        "jwt": jwt_mode(bench.workdir),
    }
    rounds: dict[str, list[Measured]] = {name: [] for name in modes}
    with _services(bench, modes) as services:
        for number in range(bench.sizes.relay_rounds):
            bench.show_progress(f"  identity: round {number + 1} of {bench.sizes.relay_rounds}")
            for name, service in services.items():
                for share in (_WARM_UP, 1.0):
                    calls = int(bench.sizes.section_calls * share)
                    job = Job(
                        port=service.port,
                        path=EXECUTE,
                        bodies=section_calls("big-0"),
                        headers=modes[name].headers,
                        connections=1,
                        calls=calls,
                        expected=OK,
                    )
                    measured = bench.measure(service, job)
                rounds[name].append(measured)
    return _report(rounds)


@contextmanager
def _services(bench: Bench, modes: Mapping[str, Mode]) -> Iterator[Mapping[str, Server]]:
    documents = bench.folder("identity", "big-0")
    with ExitStack() as stack:
        services = {
            name: stack.enter_context(
                gateway(bench.workdir, documents, {**NO_CALL_REFUSED, **mode.settings})
            )
            for name, mode in modes.items()
        }
        for service in services.values():
            service.wait_for("", "/health", method="GET", expected=OK)
        yield services


def token_mode(workdir: Path) -> Mode:
    """Build a token among many."""
    file = workdir / "tokens.jsonl"
    lines = []
    for _ in range(OTHER_TOKENS):
        token = new_token()
        entry = {"id": token[4:20], "sha256": sha256_of(token), "tenant": TENANT}
        lines.append(json.dumps(entry))
    file.write_text("\n".join(lines), encoding="utf-8")
    token, _ = add_token(file, Principal(tenant_id=TENANT))
    settings = {"MCP_PROXY_AUTH_MODE": "token", "MCP_PROXY_TOKENS_FILE": str(file)}
    return Mode(settings, {"authorization": f"Bearer {token}"})


def jwt_mode(workdir: Path) -> Mode:
    """Sign a token as large as an identity provider's."""
    key = ec.generate_private_key(ec.SECP256R1())
    public: dict[str, Any] = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    file = workdir / "jwks.json"
    file.write_text(json.dumps({"keys": [{**public, "kid": "k1"}]}), encoding="utf-8")
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": int(time.time()) + 3600,  # noqa: TID251 - the service reads the same clock
        "tenant_id": TENANT,
        "roles": [f"role-{number}" for number in range(20)],
    }
    token = jwt.encode(claims, key, "ES256", {"kid": "k1"})
    settings = {
        "MCP_PROXY_AUTH_MODE": "jwt",
        "MCP_PROXY_JWT_ISSUER": ISSUER,
        "MCP_PROXY_JWT_AUDIENCE": AUDIENCE,
        "MCP_PROXY_JWT_JWKS_FILE": str(file),
    }
    return Mode(settings, {"authorization": f"Bearer {token}"})


def _report(rounds: Mapping[str, list[Measured]]) -> Result:
    result = Result(
        "read_doc_section by how the caller proves who it is",
        ("auth_mode", "CPU ms/call", "p50 ms", "p99 ms", "CPU / none"),
    )
    for name, found in rounds.items():
        middle = medians(found)
        ratio = statistics.median(
            own.cpu_ms / none.cpu_ms for own, none in zip(found, rounds["none"], strict=True)
        )
        times = (f"{middle.p50_ms:.2f}", f"{middle.p99_ms:.2f}")
        result.rows.append((name, f"{middle.cpu_ms:.3f}", *times, f"{ratio:.3f}"))
        if name in LIMITS:
            result.targets.append(
                Target(name=f"CPU, {name} / none", limit=LIMITS[name], measured=ratio, unit="x")
            )
    return result
