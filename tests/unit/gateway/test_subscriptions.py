from dataclasses import replace

import pytest

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.configuration import AgentProfile
from mcp_tools_proxy.domain.errors import Forbidden, PolicyDenied, ProxyError, ShuttingDown
from mcp_tools_proxy.domain.run import ToolLabels
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules, RunRules
from mcp_tools_proxy.gateway.subscriptions import Subscriptions
from mcp_tools_proxy.policy.cedar.active_policies import ActivePolicies, load_policies
from mcp_tools_proxy.policy.cedar.fact_schema import action_of
from mcp_tools_proxy.policy.cedar.written_policy import read_policies
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from tests.support.builders import make_call, make_run_checks
from tests.support.fakes import FakePool, FakeResource
from tests.support.tables import each_row


def registry_of(*resources: FakeResource) -> Registry:
    profile = AgentProfile(name="a", exclude_components=("resource:u://1",))
    access_rules = AccessRules(agents={"a": Visibility.of(profile, None)})
    return Registry.build([], resources=resources, access_rules=access_rules)


def reading(uri: str = "u://1", **caller: str) -> Call:
    return make_call(uri, None, kind=Kind.RESOURCE, **caller)


class Fixture:
    """The resource ``u://1``, and how often its listener was notified."""

    def __init__(self) -> None:
        self.resource = FakeResource("u://1")
        self.holder = RegistryHolder(registry_of(self.resource))
        self.lifecycle = Lifecycle()
        self.rules = ActiveRunRules(())
        self.subscriptions = Subscriptions(
            first_attempts=FirstAttempts(self.holder, FakePool()),
            lifecycle=self.lifecycle,
            run_checks=make_run_checks(self.rules),
        )
        self.notified = 0

    def notify(self) -> None:
        self.notified += 1

    def update(self) -> None:
        """Report a change as the server does."""
        for listener in self.resource.listeners:
            listener()


async def test_a_listener_is_notified_until_it_unsubscribes() -> None:
    fixture = Fixture()
    leave = await fixture.subscriptions.subscribe(reading(), fixture.notify)
    fixture.update()
    leave()
    fixture.update()
    assert fixture.notified == 1


async def test_a_listener_is_not_notified_while_the_resource_is_hidden_from_it() -> None:
    fixture = Fixture()
    await fixture.subscriptions.subscribe(reading(), fixture.notify)
    fixture.holder.replace(registry_of())
    fixture.update()
    hidden = fixture.notified
    fixture.holder.replace(registry_of(fixture.resource))
    fixture.update()
    assert (hidden, fixture.notified) == (0, 1)


@each_row(
    ("call", "code"),
    [(reading("u://2"), "RESOURCE_NOT_FOUND"), (reading(agent="a"), "RESOURCE_NOT_ALLOWED")],
    ids=["unknown", "excluded"],
)
async def test_an_unreadable_resource_cannot_be_subscribed_to(call: Call, code: str) -> None:
    fixture = Fixture()
    with pytest.raises(ProxyError) as caught:
        await fixture.subscriptions.subscribe(call, fixture.notify)
    assert (caught.value.code, fixture.resource.listeners) == (code, [])


async def test_subscriptions_are_refused_while_the_process_stops() -> None:
    fixture = Fixture()
    fixture.lifecycle.phase = Phase.STOPPING
    with pytest.raises(ShuttingDown):
        await fixture.subscriptions.subscribe(reading(), fixture.notify)


async def test_a_policy_that_forbids_reading_forbids_subscribing() -> None:
    """The server receives the URI."""
    fixture = Fixture()
    reading_action = action_of("s:resources/read", "s", ToolLabels(), {})
    forbidding = read_policies("p.cedar", '@id("p") forbid(principal, action, resource);')
    policies = load_policies(
        ActivePolicies(), forbidding, actions=[reading_action], servers=["s"], undiscovered=()
    )
    fixture.rules.current = RunRules(policies=policies)
    with pytest.raises(PolicyDenied):
        await fixture.subscriptions.subscribe(reading(), fixture.notify)
    assert fixture.resource.listeners == []


async def test_a_token_that_makes_no_calls_cannot_subscribe() -> None:
    fixture = Fixture()
    call = reading()
    with pytest.raises(Forbidden):
        await fixture.subscriptions.subscribe(
            replace(call, caller=replace(call.caller, may_call=False)), fixture.notify
        )
    assert fixture.resource.listeners == []
