"""Private names of libraries that we use, each with a check.

After a library upgrade, a failure states which name is missing and where it was used.
``docs/decisions/private-names.md`` states the next steps.
"""

import ast
import asyncio.subprocess
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
import uvicorn
from fastapi.routing import APIRoute
from redis.asyncio import Connection, ConnectionPool
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mcp_tools_proxy.ratelimit.redis_storage import SharedRedisStorage

SERVICES = Path(__file__).parent.parent.parent / "services/mcp_tools_proxy"


@dataclass(frozen=True, slots=True)
class PrivateName:
    """A private name: its library, the files that use it, and a check that it exists."""

    library: str
    name: str
    file: str
    is_there: Callable[[], bool]

    def __str__(self) -> str:
        return f"{self.library}:{self.name}"


def sets(owner: type, attribute: str) -> Callable[[], bool]:
    """Return whether a method of the class, or of a base, reads or sets ``self.<attribute>``."""
    return lambda: any(
        attribute in function.__code__.co_names
        for base in owner.__mro__
        for function in vars(base).values()
        if inspect.isfunction(function)
    )


def takes(owner: type, method: str, *parameters: str) -> Callable[[], bool]:
    """Return whether the class has the method, with these parameters after ``self``."""

    def is_there() -> bool:
        function = getattr(owner, method, None)
        return function is not None and [*inspect.signature(function).parameters][1:] == [
            *parameters
        ]

    return is_there


def exports(module: str, name: str) -> Callable[[], bool]:
    """Return whether the module exists and has the name."""

    def is_there() -> bool:
        try:
            found: ModuleType = import_module(module)
        except ImportError:
            return False
        return hasattr(found, name)

    return is_there


def redis_bridge_has(name: str) -> Callable[[], bool]:
    return lambda: hasattr(
        SharedRedisStorage(ConnectionPool.from_url("redis://localhost")).bridge, name
    )


HTTP, FLOW = "server/http_protocol.py", "server/slow_clients.py"
SERVER = "server/uvicorn_server.py"
REDIS = "ratelimit/redis_storage.py"
PIPELINE = "ratelimit/redis_pipeline.py"
STDIO = "downstream/mcp_client/stdio_process.py"

# sse_starlette, imported by the mcp package, replaces uvicorn.Server.handle_exit with a function of
# (*args, **kwargs), so its parameters cannot be checked after the import.
PRIVATE_NAMES = [
    PrivateName("uvicorn", "_types", HTTP, exports("uvicorn._types", "ASGI3Application")),
    PrivateName("uvicorn", "_captured_signals", SERVER, sets(uvicorn.Server, "_captured_signals")),
    PrivateName("uvicorn", "handle_exit", SERVER, lambda: hasattr(uvicorn.Server, "handle_exit")),
    PrivateName("uvicorn", "on_tick", SERVER, takes(uvicorn.Server, "on_tick", "counter")),
    PrivateName("uvicorn", "startup", SERVER, takes(uvicorn.Server, "startup", "sockets")),
    PrivateName("uvicorn", "capture_signals", SERVER, takes(uvicorn.Server, "capture_signals")),
    PrivateName("uvicorn", "FlowControl._transport", FLOW, sets(FlowControl, "_transport")),
    PrivateName("uvicorn", "FlowControl.read_paused", FLOW, sets(FlowControl, "read_paused")),
    PrivateName(
        "uvicorn",
        "_start_asgi_task",
        HTTP,
        takes(HttpToolsProtocol, "_start_asgi_task", "cycle", "app"),
    ),
    PrivateName(
        "uvicorn",
        "_unset_keepalive_if_required",
        HTTP,
        takes(HttpToolsProtocol, "_unset_keepalive_if_required"),
    ),
    PrivateName(
        "uvicorn", "send_400_response", HTTP, takes(HttpToolsProtocol, "send_400_response", "msg")
    ),
    PrivateName(
        "uvicorn", "on_response_complete", HTTP, takes(HttpToolsProtocol, "on_response_complete")
    ),
    PrivateName(
        "uvicorn",
        "timeout_keep_alive_handler",
        HTTP,
        takes(HttpToolsProtocol, "timeout_keep_alive_handler"),
    ),
    *(
        PrivateName("uvicorn", f"HttpToolsProtocol.{name}", HTTP, sets(HttpToolsProtocol, name))
        for name in (
            *("connections", "cycle", "flow", "headers", "loop", "parser", "pipeline", "scope"),
            *("timeout_keep_alive", "timeout_keep_alive_task", "transport"),
        )
    ),
    *(
        PrivateName(
            "uvicorn", f"RequestResponseCycle.{name}", HTTP, sets(RequestResponseCycle, name)
        )
        for name in (
            *("disconnected", "keep_alive", "message_event", "on_response"),
            *("response_complete", "response_started"),
        )
    ),
    PrivateName("fastapi", "APIRoute.app", "http/fast_routes.py", sets(APIRoute, "app")),
    PrivateName(
        "aiohttp",
        "http_exceptions",
        "downstream/mcp_client/error_mapping.py",
        exports("aiohttp.http_exceptions", "ContentEncodingError"),
    ),
    PrivateName("limits", "bridge.prefixed_key", REDIS, redis_bridge_has("prefixed_key")),
    PrivateName("redis", "Connection._writer", PIPELINE, sets(Connection, "_writer")),
    PrivateName("asyncio", "_transport", STDIO, sets(asyncio.subprocess.Process, "_transport")),
]


@pytest.mark.parametrize("private_name", PRIVATE_NAMES, ids=str)
def test_the_name_exists(private_name: PrivateName) -> None:
    release = (
        "of this Python" if private_name.library == "asyncio" else version(private_name.library)
    )
    if not private_name.is_there():
        pytest.fail(
            f"{private_name.library} {release} has no {private_name.name}, see {private_name.file}",
            pytrace=False,
        )


@pytest.mark.parametrize("private_name", PRIVATE_NAMES, ids=str)
def test_the_name_is_still_used(private_name: PrivateName) -> None:
    used_in = (SERVICES / private_name.file).read_text(encoding="utf-8")
    if private_name.file == HTTP:  # its connection limit is in a separate file
        used_in += (SERVICES / "server/connection_limit.py").read_text(encoding="utf-8")
    assert private_name.name.rpartition(".")[2] in used_in


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.Module) -> set[str]:
    """Return every private name that a module defines or sets."""
    named = {node.name for node in ast.walk(tree) if hasattr(node, "name")}
    stored = {
        getattr(node, "attr", "") or getattr(node, "id", "")
        for node in ast.walk(tree)
        if isinstance(getattr(node, "ctx", None), ast.Store)
    }
    return named | stored


def foreign_names(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a module uses and does not define."""
    own = own_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if is_private(name) and name not in own:
                yield name
            case ast.ImportFrom(module=str(module)):
                yield from filter(is_private, module.split("."))
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name)), *_]):
                yield from filter(is_private, [name])


SYSTEM = {"_asdict", "_exit", "_fields", "_replace"}
"""Documented standard library names that begin with an underscore."""


def test_every_used_private_name_has_a_check() -> None:
    checked = {private_name.name.rpartition(".")[2] for private_name in PRIVATE_NAMES} | SYSTEM
    unchecked = [
        f"{path.relative_to(SERVICES)}: {name}"
        for path in sorted(SERVICES.rglob("*.py"))
        for name in foreign_names(ast.parse(path.read_text(encoding="utf-8")))
        if name not in checked
    ]
    assert unchecked == []


def test_the_decision_states_their_number() -> None:
    page = SERVICES.parent.parent / "docs/decisions/private-names.md"
    private = sum(
        any(map(is_private, private_name.name.split("."))) for private_name in PRIVATE_NAMES
    )
    count = f"{len(PRIVATE_NAMES)} names: {private} private, {len(PRIVATE_NAMES) - private} public"
    assert count in page.read_text(encoding="utf-8")
