"""Entity tags: equal lists are byte-identical and not sent again."""

from collections.abc import AsyncIterator, Sequence

import httpx
import pytest

from tests.support.configuration import Json, make_agent, make_preset
from tests.support.http_api import Two, config_of, offer, two_servers
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import ACTIVE, PROMPTS, RESOURCES, TOOLS, Service, running

FORMATS = ("mcp", "openai", "anthropic", "gemini")
LISTS = (*(f"{TOOLS}?format={shape}" for shape in FORMATS), PROMPTS, RESOURCES)
SMALL = make_preset("small", tools=[("a", "alpha")])
WHOLE = make_preset("whole", tools=[("a", "alpha"), ("a", "whoami"), ("a-b", "beta")])


@pytest.fixture(scope="module")
async def two(shared_settings: Json) -> AsyncIterator[Two]:
    async with two_servers(**shared_settings) as started:
        yield started


async def get(service: Service, path: str, *tags: str) -> httpx.Response:
    """GET a list, with an If-None-Match line for each of ``tags``."""
    return await service.http.get(path, headers=[("If-None-Match", tag) for tag in tags])


async def all_lists(service: Service, tags: Sequence[str] = ()) -> list[httpx.Response]:
    lines = [[tag] for tag in tags] or [[]] * len(LISTS)
    return [await get(service, path, *line) for path, line in zip(LISTS, lines, strict=True)]


def content_and_tag(answers: Sequence[httpx.Response]) -> list[tuple[bytes, str]]:
    return [(it.content, it.headers["ETag"]) for it in answers]


async def test_a_list_is_byte_identical_after_a_restart() -> None:
    async with running_raw(**offer("alpha")) as a, running_raw(**offer("beta")) as a_b:
        answers = []
        for _ in range(2):
            async with running(config=config_of(a, a_b)) as service:
                answers.append(content_and_tag(await all_lists(service)))
    assert answers[0] == answers[1]


async def test_a_changed_list_has_another_tag() -> None:
    async with two_servers(presets=[WHOLE, SMALL]) as two:
        before = [it.headers["ETag"] for it in await all_lists(two.service)]
        await two.service.http.put(ACTIVE, json={"preset_id": "small", "persist": False})
        after = await all_lists(two.service, before)
    assert [it.status_code for it in after] == [200] * len(LISTS)
    same = zip(LISTS, before, after, strict=True)
    assert [path for path, tag, answer in same if answer.headers["ETag"] == tag] == []


async def test_a_new_registry_with_the_same_content_keeps_tag_and_bytes() -> None:
    async with two_servers(presets=[WHOLE, SMALL]) as two:
        before = content_and_tag(await all_lists(two.service))
        for preset_id in ("small", "whole"):
            await two.service.http.put(ACTIVE, json={"preset_id": preset_id, "persist": False})
        assert content_and_tag(await all_lists(two.service)) == before


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "spelt", [["{}"], ["W/{}"], ["*"], ['"a, b", W/"c" ,{}'], ['"a"', "{}"]], ids=str
)
async def test_a_list_that_the_client_has_is_not_sent_again(
    two: Two, path: str, spelt: list[str]
) -> None:
    tag = (await get(two.service, path)).headers["ETag"]
    answer = await get(two.service, path, *[line.format(tag) for line in spelt])
    assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", tag)


@pytest.mark.parametrize("spelt", ['"a"', "{bare}", "", 'W/"*"', '"*"'])
async def test_a_list_with_an_outdated_tag_is_sent(two: Two, spelt: str) -> None:
    tag = (await get(two.service, TOOLS)).headers["ETag"]
    answer = await get(two.service, TOOLS, spelt.format(bare=tag.strip('"')))
    assert (answer.status_code, answer.json()["format"]) == (200, "mcp")


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("tags", [[], ["*"]], ids=["200", "304"])
async def test_lists_are_cached_privately_and_revalidated(
    two: Two, path: str, tags: list[str]
) -> None:
    answer = await get(two.service, path, *tags)
    assert answer.headers["Cache-Control"] == "private, no-cache"


async def test_a_304_has_a_trace_id(two: Two) -> None:
    headers = {"If-None-Match": "*", "X-Trace-Id": "t-1"}
    answer = await two.service.http.get(TOOLS, headers=headers)
    assert (answer.status_code, answer.headers["X-Trace-Id"]) == (304, "t-1")


async def test_agents_with_the_same_view_share_a_tag_and_others_do_not() -> None:
    agents = [make_agent("x"), make_agent("y"), make_agent("z", exclude=["beta"])]
    async with two_servers(*agents) as two:
        x, y, z = [await get(two.service, f"{TOOLS}?agent={name}") for name in "xyz"]
        assert (x.headers["ETag"] == y.headers["ETag"], x.content == y.content) == (True, True)
        assert x.headers["ETag"] != z.headers["ETag"]


async def test_formats_and_subsets_have_separate_tags(two: Two) -> None:
    queries = ["format=mcp", "format=openai", "format=anthropic", "names=", "names=a:alpha"]
    queries += ["names=nope", "names=nope2"]  # the same tools, different warnings
    answers = [await get(two.service, f"{TOOLS}?{query}") for query in queries]
    assert len({answer.headers["ETag"] for answer in answers}) == len(queries)


@pytest.mark.parametrize("names", ["a:alpha,a-b:beta", "a-b:beta,a:alpha,a:alpha"])
async def test_a_subset_has_the_same_tag_in_any_order_of_names(two: Two, names: str) -> None:
    one = await get(two.service, f"{TOOLS}?names=a:alpha&names=a-b:beta")
    other = await get(two.service, f"{TOOLS}?names={names}", one.headers["ETag"])
    assert other.status_code == 304


@pytest.mark.parametrize(
    ("agent", "code"), [("nobody", "AGENT_NOT_FOUND"), (None, "AGENT_REQUIRED")]
)
async def test_a_refused_list_is_an_error_for_any_tag(agent: str | None, code: str) -> None:
    async with two_servers(make_agent("reader")) as two:
        for path in LISTS:
            url = path if agent is None else f"{path}{'&' if '?' in path else '?'}agent={agent}"
            answer = await get(two.service, url, "*")
            found = answer.status_code, answer.json()["error"]["code"], "ETag" in answer.headers
            assert found == (200, code, False), path


@pytest.mark.parametrize("path", [TOOLS, PROMPTS, RESOURCES])
async def test_a_duplicate_agent_is_refused(two: Two, path: str) -> None:
    answer = await two.service.http.get(f"{path}?agent=reader&agent=writer")
    assert (answer.status_code, answer.json()["error"]["details"]) == (422, {"field": "agent"})
