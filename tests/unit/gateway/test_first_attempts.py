from collections.abc import Mapping, Sequence

import pytest

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Preset, Reference
from mcp_tools_proxy.domain.errors import PromptNotFound, ServerUnavailable, ToolNotAllowed
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.policy.visibility import Offers, PresetScope
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from tests.support.builders import make_call
from tests.support.fakes import FakeTool

SCOPE = PresetScope.of(
    Preset(
        preset_id="work",
        name="Work",
        tools=tuple(Reference(server_id=s, name="x") for s in ("a", "b")),
    )
)


class Pending:
    """A tool ``local`` and pending servers ``a`` and ``b``; ``outcomes`` has the results of their
    attempts, after a second."""

    def __init__(self, **outcomes: Exception | None) -> None:
        self.outcomes = outcomes
        self.holder = RegistryHolder(
            Registry.build([FakeTool(name="local")], offers=Offers(scope=SCOPE))
        )
        self.now = 0.0
        self.waits: list[tuple[str, float]] = []
        self.unavailable: dict[str, ServerUnavailable] = {}

    @property
    def pending(self) -> Sequence[str]:
        return [*self.outcomes]

    def undiscovered(self, _: Kind) -> Mapping[str, ServerUnavailable]:
        return self.unavailable

    async def wait_first_attempt(self, server_id: str, waited_s: float, tenant_id: str) -> None:
        self.waits.append((server_id, waited_s))
        self.now += 1.0
        error = self.outcomes.pop(server_id)
        if error is not None:
            raise error
        tool = FakeTool(name=f"{server_id}:x", server_id=server_id)
        self.holder.replace(Registry.build([tool], offers=Offers(scope=SCOPE)))

    @property
    def first_attempts(self) -> FirstAttempts:
        return FirstAttempts(self.holder, self, clock=lambda: self.now)


async def test_a_server_before_its_first_login_is_unavailable_instead_of_unknown() -> None:
    servers = Pending()
    servers.unavailable["a"] = ServerUnavailable("an operator has to sign in")
    with pytest.raises(ServerUnavailable, match="an operator"):
        servers.first_attempts.find_unless_pending(make_call("a:x"), Registry.resolve)
    with pytest.raises(ToolNotAllowed):
        servers.first_attempts.find_unless_pending(make_call("b:x"), Registry.resolve)


async def test_a_missing_login_is_not_reported_for_an_ambiguous_prompt_name() -> None:
    servers = Pending()
    servers.unavailable["a"] = ServerUnavailable("an operator has to sign in")
    with pytest.raises(PromptNotFound):
        await servers.first_attempts.find(make_call("x", kind=Kind.PROMPT), Registry.resolve)


async def test_the_waiting_time_is_part_of_the_call() -> None:
    servers = Pending(a=None)
    found, call = await servers.first_attempts.find(make_call("a:x"), Registry.resolve)
    assert (found.spec.name, call.waited_s) == ("a:x", 1.0)


async def test_a_call_that_does_not_wait_is_unchanged() -> None:
    servers = Pending(a=None, b=None)
    await servers.first_attempts.find(make_call("a:x"), Registry.resolve)
    again = make_call("a:x")
    _, call = await servers.first_attempts.find(again, Registry.resolve)
    assert call is again


async def test_the_failure_of_the_named_server_is_the_answer() -> None:
    servers = Pending(a=ServerUnavailable("not there", retry_after_s=1.0))
    with pytest.raises(ServerUnavailable):
        await servers.first_attempts.find(make_call("a:x"), Registry.resolve)


async def test_the_failure_of_another_server_is_not_the_answer() -> None:
    servers = Pending(b=ServerUnavailable("not there", retry_after_s=1.0))
    with pytest.raises(ToolNotAllowed):
        await servers.first_attempts.find(make_call("a:x"), Registry.resolve)
    assert servers.waits == []


async def test_a_prompt_with_the_name_of_a_tool_is_waited_for() -> None:
    servers = Pending(a=None)
    with pytest.raises(PromptNotFound):
        await servers.first_attempts.find(make_call("local", kind=Kind.PROMPT), Registry.resolve)
    assert servers.waits == [("a", 0.0)]
