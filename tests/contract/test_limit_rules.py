import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from redis import Redis

from mcp_tools_proxy.domain.budget import ChargedCall, LimitRule, LimitRules
from mcp_tools_proxy.domain.errors import RateLimitExceeded
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import Limiter, build_limiter
from mcp_tools_proxy.ratelimit.storage import MemoryStorage
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.configuration import Config, make_rule
from tests.support.redis_server import RedisServer
from tests.support.service import Service, running
from tests.unit.ratelimit.limit_rules import UNLIMITED, rule

pytestmark = [pytest.mark.requirement("T-09"), pytest.mark.usefixtures("patient_limits")]

CALL = ChargedCall("a", "ann", "reader", doc_id="doc")
LIMITS = BudgetLimits(
    document_calls=30, document_tokens=0, tenant_calls=40, tenant_tokens=0, window_s=60
)


class Limiters:
    """Limiters over one storage, as in several replicas."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._memory = MemoryStorage()
        self._open: list[Limiter] = []

    async def build(self, *rules: LimitRule, limits: BudgetLimits = UNLIMITED) -> Limiter:
        if self._url is None:
            limiter = Limiter(limits, memory=self._memory, shared=None, metrics=Metrics())
        else:
            limiter = build_limiter(limits, storage_url=self._url, metrics=Metrics())
            await limiter.connect()
        limiter.apply_rules(LimitRules(rules=rules))
        self._open.append(limiter)
        return limiter

    async def close(self) -> None:
        for limiter in self._open:
            assert limiter.up
            await limiter.close()


@pytest.fixture(params=["memory", "redis"])
async def limiters(request: pytest.FixtureRequest) -> AsyncIterator[Limiters]:
    url = None
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("shared_server")
        with Redis.from_url(server.url) as redis:
            redis.flushall()
        url = server.url
    limiters = Limiters(url)
    yield limiters
    await limiters.close()


async def passed(limiters: Sequence[Limiter], calls: Sequence[ChargedCall]) -> int:
    """Send all calls in parallel, distributed over the limiters; return how many were admitted."""
    outcomes = await asyncio.gather(
        *(limiters[place % len(limiters)].admit(call) for place, call in enumerate(calls)),
        return_exceptions=True,
    )
    refused = [it for it in outcomes if isinstance(it, RateLimitExceeded)]
    assert all(not isinstance(it, Exception) for it in outcomes if it not in refused)
    return len(outcomes) - len(refused)


async def test_exactly_n_of_m_calls_of_several_replicas_pass_a_rule(limiters: Limiters) -> None:
    replicas = [await limiters.build(rule(calls=11, each="user")) for _ in range(3)]
    assert await passed(replicas, [CALL] * 90) == 11


async def test_a_call_refused_by_one_of_two_overlapping_rules_is_charged_to_neither(
    limiters: Limiters,
) -> None:
    rules = [rule("agent", calls=12, each="agent"), rule("user", calls=7, each="user")]
    replicas = [await limiters.build(*rules, limits=LIMITS) for _ in range(2)]
    assert await passed(replicas, [CALL] * 60) == 7
    assert await passed(replicas, [CALL._replace(user_id="bob")] * 60) == 5
    without_agent = CALL._replace(user_id="carol", agent=None)
    assert await passed(replicas, [without_agent] * 60) == 7
    left = {it.budget.name: it.remaining for it in await replicas[0].peek(CALL)}
    assert left == {"document_calls": 11, "tenant_calls": 21, "agent": 0, "user": 0}


async def test_rules_can_have_different_windows(limiters: Limiters) -> None:
    limiter = await limiters.build(
        rule("hour", calls=9, window_s=3600),
        rule("day", tokens=9, window_s=86_400),
        rule("week", calls=99, window_s=604_800),
    )
    admission = await limiter.admit(CALL)
    await limiter.charge_tokens(admission, 4)
    read = await limiter.peek(CALL)
    assert [it.remaining for it in read] == [8, 5, 98]
    assert [it.reset_s for it in read] == [
        pytest.approx(3600, abs=60),
        pytest.approx(86_400, abs=60),
        pytest.approx(604_800, abs=60),
    ]
    shown = admission.status_after(4)
    assert shown is not None
    assert (shown.name, shown.remaining_tokens, shown.reset_s) == ("day", 5, 86_400)


async def test_exhausted_tokens_of_a_rule_refuse_the_next_call(limiters: Limiters) -> None:
    limiter = await limiters.build(rule(tokens=100, each="tenant"))
    await limiter.charge_tokens(await limiter.admit(CALL), 5000)
    other = CALL._replace(tenant_id="b")
    assert [await passed([limiter], [it]) for it in (CALL, other)] == [0, 1]


async def test_values_shown_at_admission_include_earlier_calls(limiters: Limiters) -> None:
    replicas = [await limiters.build(rule(calls=20)) for _ in range(2)]
    admissions = await asyncio.gather(*(replicas[place % 2].admit(CALL) for place in range(20)))
    shown = [it.status_after(0) for it in admissions]
    assert sorted(it.remaining_calls or 0 for it in shown if it) == [*range(20)]


async def test_a_rule_may_have_the_largest_numbers(limiters: Limiters) -> None:
    limiter = await limiters.build(
        rule(calls=999_999_999_999_999, tokens=999_999_999_999_999, window_s=31_622_400)
    )
    await limiter.charge_tokens(await limiter.admit(CALL), 999_999_999_999_998)
    assert [it.remaining for it in await limiter.peek(CALL)] == [999_999_999_999_998, 1]


async def test_in_redis_an_admission_by_rules_and_its_charge_are_one_script_each(
    server: RedisServer, redis: Redis
) -> None:
    limiters = Limiters(server.url)
    limiter = await limiters.build(
        rule("a", calls=5, each="user"), rule("b", calls=5, tokens=9, window_s=5), limits=LIMITS
    )
    redis.config_resetstat()
    await limiter.charge_tokens(await limiter.admit(CALL), 3)
    ran = redis.info("commandstats")["cmdstat_evalsha"]
    await limiters.close()
    assert (ran["calls"], ran["failed_calls"]) == (2, 0)


async def test_in_redis_a_refusal_is_one_script(server: RedisServer, redis: Redis) -> None:
    limiters = Limiters(server.url)
    limiter = await limiters.build(rule(calls=1))
    await limiter.admit(CALL)
    redis.config_resetstat()
    assert await passed([limiter], [CALL]) == 0
    ran = redis.info("commandstats")["cmdstat_evalsha"]
    await limiters.close()
    assert ran["calls"] == 1


async def test_two_gateways_over_one_redis_admit_exactly_the_files_limit(
    server: RedisServer, redis: Redis
) -> None:
    redis.flushall()
    config = Config(limits=[make_rule("per_user", {"tenant": "tenant_1"}, each=["user"], calls=9)])

    async def codes(service: Service) -> list[str]:
        read = [service.code("read_doc_metadata", {"doc_id": "doc_1"}) for _ in range(20)]
        return await asyncio.gather(*read)

    async with (
        running(config=config, rate_limit_storage_url=server.url) as one,
        running(config=config, rate_limit_storage_url=server.url) as other,
    ):
        found = [*await codes(one), *await codes(other)]
    assert (found.count("OK"), found.count("RATE_LIMIT_EXCEEDED")) == (9, 31)
