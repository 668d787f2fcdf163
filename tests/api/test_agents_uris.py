"""Excluded URIs cannot be read through a template in any spelling."""

import pytest

from tests.support.configuration import make_agent
from tests.support.http_api import ITEM, TEXT, code, listed, reached, two_servers, use

SECRET = "raw://item/Secret"
ANY = ["raw:{+any}", "RAW:{+any}", "raw:{+any}{?x,y}"]
"""Templates that match every spelling below."""
MORE = {"resourceTemplates": [{"uriTemplate": uri, "name": uri} for uri in ANY]}

SPELLINGS = [
    SECRET,
    "raw://item/secret",
    "raw://item/SECRET",
    "RAW://item/Secret",
    "raw://item/%53ecret",
    "raw://item/%2553ecret",
    "raw://item/%25252553ecret",
    "raw://item%2FSecret",
    "raw:%2F%2Fitem/Secret",
    "raw://item//Secret",
    "raw:///item/Secret",
    "raw://item/Secret/",
    "raw://item/Secret//",
    "raw://item/Secret%2F",
    "raw://item\\Secret",
    "raw://item/Secret?x",
    "raw://item/Secret?x=1&y=2",
    "raw://item/Secret/?x",
    "raw://item/Secret%3Fx",
    "raw://item/Secret#f",
    "raw://item/Secret%23f",
    "raw://item/Secret?x#f",
    "raw://item/Secret;v=1",
]

MALFORMED = [
    "raw://item/./Secret",
    "raw://item/x/../Secret",
    "raw://item/%2e%2e/item/Secret",
    "raw://item/Sec\x00ret",
    "raw://item/Sec%0Aret",
]

EXCLUDES = [SECRET, f"a:{SECRET}", f"resource:{SECRET}", f"resource:a:{SECRET}"]


@pytest.mark.requirement("A-20", "A-11")
@pytest.mark.parametrize("excluded", EXCLUDES)
async def test_an_excluded_uri_is_denied_in_every_spelling(excluded: str) -> None:
    async with two_servers(make_agent(client_ids=["a"], exclude=[excluded]), more=MORE) as two:
        answers = {uri: await code(two.service, "resource", uri, "reader") for uri in SPELLINGS}
        assert answers == dict.fromkeys(SPELLINGS, "RESOURCE_NOT_ALLOWED")
        assert two.uses == 0


async def test_a_uri_that_is_not_excluded_is_requested_in_each_spelling() -> None:
    async with two_servers(make_agent(client_ids=["a"]), more=MORE) as two:
        for count, uri in enumerate(SPELLINGS, 1):
            await use(two.service, "resource", uri, "reader")
            assert (uri, two.uses) == (uri, count)


@pytest.mark.requirement("A-20")
@pytest.mark.parametrize("excluded", EXCLUDES)
async def test_an_excluded_uri_is_denied_with_its_server_prefix_or_malformed(
    excluded: str,
) -> None:
    spellings = (*(f"a:{uri}" for uri in SPELLINGS), *MALFORMED)
    async with two_servers(make_agent(client_ids=["a"], exclude=[excluded]), more=MORE) as two:
        codes = {await code(two.service, "resource", uri, "reader") for uri in spellings}
        assert (codes <= {"RESOURCE_NOT_ALLOWED", "RESOURCE_NOT_FOUND"}, two.uses) == (True, 0)


@pytest.mark.requirement("A-20")
async def test_an_excluded_uri_that_no_server_lists_is_denied_as_excluded() -> None:
    async with two_servers(make_agent(exclude=["nowhere://x"])) as two:
        assert await code(two.service, "resource", "nowhere://x", "reader") == (
            "RESOURCE_NOT_ALLOWED"
        )


@pytest.mark.requirement("A-20")
@pytest.mark.parametrize("uri", [TEXT, "raw://TEXT", "raw://%74ext", "raw://text?x", f"a:{TEXT}"])
async def test_an_excluded_resource_is_not_read_through_a_template(uri: str) -> None:
    async with two_servers(make_agent(client_ids=["a"], exclude=[TEXT]), more=MORE) as two:
        answer = await code(two.service, "resource", uri, "reader")
        assert (answer.startswith("RESOURCE_NOT_"), two.uses) == (True, 0)


@pytest.mark.requirement("A-01", "A-20")
@pytest.mark.parametrize("agent", [None, "reader"])
async def test_a_uri_that_a_server_excludes_is_not_read_through_its_template(
    agent: str | None,
) -> None:
    agents = make_agent(client_ids=["a"])
    exclude = {"a": [SECRET, TEXT], "a-b": [TEXT, ITEM, *ANY]}
    spellings = (*SPELLINGS, TEXT, "raw://TEXT", *MALFORMED, *(f"a:{uri}" for uri in SPELLINGS))
    async with two_servers(agents, exclude=exclude, more=MORE, require_agent=False) as two:
        answers = {uri: await code(two.service, "resource", uri, agent) for uri in spellings}
        assert (answers, two.uses) == (dict.fromkeys(spellings, "RESOURCE_NOT_FOUND"), 0)


@pytest.mark.requirement("A-20")
@pytest.mark.parametrize("uri", ["raw://item/Secrets", "raw://item/7", "raw://item/x/Secret"])
async def test_a_uri_that_is_not_excluded_can_be_read(uri: str) -> None:
    async with two_servers(make_agent(client_ids=["a"], exclude=[SECRET]), more=MORE) as two:
        assert await reached(two.service, "resource", uri, "reader") == f"{uri} of a"


@pytest.mark.parametrize(
    ("excluded", "uri"),
    [
        ("raw://item/%53ecret", SECRET),
        ("raw://item/secret/", SECRET),
        ("RAW://ITEM/SECRET", SECRET),
        ("raw://item/x?y=1", "raw://item/x?y=1#f"),
        ("raw://item/x?y=1", "raw://item/X?y%3D1"),
        ("raw://item/x?y=1", "raw://item/x%3Fy=1#f?g"),
        ("raw://item/x;v=1", "raw://item/x;v=1?y"),
    ],
)
async def test_the_spelling_of_the_exclude_does_not_matter(excluded: str, uri: str) -> None:
    async with two_servers(make_agent(client_ids=["a"], exclude=[excluded]), more=MORE) as two:
        answer = await code(two.service, "resource", uri, "reader")
        assert (answer, two.uses) == ("RESOURCE_NOT_ALLOWED", 0)


@pytest.mark.requirement("A-05", "A-18")
async def test_an_excluded_template_matches_no_uri() -> None:
    async with two_servers(make_agent(client_ids=["a"], exclude=[ITEM])) as two:
        answer = await code(two.service, "resource", "raw://item/7", "reader")
        assert ((await listed(two.service, "reader")).templates, answer, two.uses) == (
            [],
            "RESOURCE_NOT_ALLOWED",
            0,
        )


@pytest.mark.requirement("A-16")
async def test_an_exclude_for_one_server_keeps_the_uri_of_other_servers() -> None:
    async with two_servers(make_agent(exclude=[f"a:{SECRET}"]), more=MORE) as two:
        assert await reached(two.service, "resource", SECRET, "reader") == f"{SECRET} of a-b"
