"""Invalid optional fields of listed items are removed; the items stay."""

from typing import Any

import pytest

from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.discovery import discover
from tests.support.captured_logs import capture_logs
from tests.support.tables import each_row
from tests.unit.downstream.fake_server import FakeConnection, FakeServer, failing_with, tool
from tests.unit.downstream.offered_components import offered

Json = dict[str, Any]
LISTS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "templates": "resources/templates/list",
}
PLAIN: dict[str, Json] = {
    "tools": tool("a"),
    "prompts": {"name": "a"},
    "resources": {"uri": "a://a", "name": "a"},
    "templates": {"uriTemplate": "a://{x}", "name": "a"},
}
EVERYTHING: dict[str, object] = {"tools": {}, "prompts": {}, "resources": {}}


def offering(**items: list[Any]) -> FakeServer:
    server = FakeServer()
    server.capabilities = EVERYTHING
    for kind, method in LISTS.items():
        server.lists[method] = items.get(kind, [])
    return server


async def found(server: FakeServer, previous: Snapshot | None = None) -> Snapshot:
    return await discover(FakeConnection(server, lambda: None), previous, timeout_s=5)


async def one_of(kind: str, item: Any) -> tuple[Json, tuple[str, ...]]:
    """Discover one item; return it and the names of its ignored fields."""
    snapshot = await found(offering(**{kind: [item]}))
    assert snapshot.dropped == ()
    (descriptor,) = getattr(snapshot, kind).values()
    fields = tuple(field for ignored in snapshot.ignored for field in ignored.fields)
    return dict(descriptor), fields


EVERYWHERE: list[Json] = [
    {"title": 5},
    {"title": "\ud800"},
    {"description": ["x"]},
    {"_meta": "x"},
    {"icons": "no"},
]


@each_row("kind", PLAIN)
@each_row(
    "odd",
    EVERYWHERE,
)
async def test_a_field_of_the_wrong_type_is_removed(kind: str, odd: Json) -> None:
    assert await one_of(kind, PLAIN[kind] | odd) == (PLAIN[kind], tuple(odd))


@each_row("kind", PLAIN)
async def test_a_null_field_is_treated_as_absent(kind: str) -> None:
    assert await one_of(kind, PLAIN[kind] | {"title": None, "_meta": None}) == (PLAIN[kind], ())


@each_row("kind", PLAIN)
async def test_valid_items_are_kept_unchanged(kind: str) -> None:
    icons = [{"src": "data:,", "mimeType": "image/png", "sizes": ["1x1"], "theme": "dark"}]
    item = PLAIN[kind] | {"title": "é", "icons": icons, "_meta": {"a": None}, "somethingNew": None}
    assert await one_of(kind, item) == (item, ())


ODD: list[tuple[str, Json, Json, tuple[str, ...]]] = [
    ("tools", {"outputSchema": "x"}, {}, ("outputSchema",)),
    ("tools", {"outputSchema": True}, {}, ("outputSchema",)),
    ("tools", {"annotations": "x"}, {}, ("annotations",)),
    (
        "tools",
        {"annotations": {"readOnlyHint": "yes", "idempotentHint": True, "title": 1, "own": 1}},
        {"annotations": {"idempotentHint": True, "own": 1}},
        ("annotations.title", "annotations.readOnlyHint"),
    ),
    ("tools", {"annotations": {"readOnlyHint": 1}}, {"annotations": {}},
     ("annotations.readOnlyHint",)),
    ("tools", {"execution": []}, {}, ("execution",)),
    ("tools", {"execution": {"taskSupport": "perhaps"}}, {"execution": {}},
     ("execution.taskSupport",)),
    ("prompts", {"arguments": {}}, {}, ("arguments",)),
    (
        "prompts",
        {"arguments": [{}, {"name": 1}, "x", {"name": "b", "required": "yes", "description": 1}]},
        {"arguments": [{"name": "b"}]},
        ("arguments[0]", "arguments[1]", "arguments[2]", "arguments[3].description",
         "arguments[3].required"),
    ),
    ("resources", {"size": "big"}, {}, ("size",)),
    ("resources", {"size": True}, {}, ("size",)),
    ("resources", {"mimeType": 1}, {}, ("mimeType",)),
    (
        "resources",
        {"annotations": {"audience": ["user", "dog"], "priority": 7, "lastModified": 1}},
        {"annotations": {"audience": ["user"]}},
        ("annotations.audience[1]", "annotations.priority", "annotations.lastModified"),
    ),
    (
        "templates",
        {"icons": [{"src": 1}, {"src": "x", "sizes": "1x1", "theme": "red"}]},
        {"icons": [{"src": "x"}]},
        ("icons[0]", "icons[1].sizes", "icons[1].theme"),
    ),
]  # fmt: skip


@each_row(("kind", "odd", "kept", "fields"), ODD)
async def test_invalid_members_of_a_field_are_removed(
    kind: str, odd: Json, kept: Json, fields: tuple[str, ...]
) -> None:
    assert await one_of(kind, PLAIN[kind] | odd) == (PLAIN[kind] | kept, fields)


async def test_a_thousand_invalid_members_are_summarized() -> None:
    item, fields = await one_of("tools", tool("a", icons=[5] * 1000))
    assert (item["icons"], len(fields), fields[-1]) == ([], 11, "990 more")


async def test_ignored_fields_are_logged_once() -> None:
    server = FakeServer(tool("a", title=5), tool("b"))
    with capture_logs() as logs:
        async with offered(server) as (components, _):
            assert [it.spec.bare_name for it in components.tools] == ["a", "b"]
    lines = [line for line in logs if line["event"] == "server.fields_ignored"]
    assert [(it["kind"], it["name"], it["fields"]) for it in lines] == [("tool", "a", ["title"])]


# Names and URIs


@each_row(
    "name",
    [{}, {"name": None}, {"name": ""}, {"name": 5}],
)
async def test_the_uri_becomes_the_name_of_a_resource_without_name(name: Json) -> None:
    resource, _ = await one_of("resources", {"uri": "a://a", **name})
    template, _ = await one_of("templates", {"uriTemplate": "a://{x}", **name})
    assert (resource["name"], template["name"]) == ("a://a", "a://{x}")


@pytest.mark.requirement("W-10")
async def test_a_resource_with_variables_in_its_uri_becomes_a_template() -> None:
    item = {"uri": "a://{x}/y", "name": "n", "size": 5, "mimeType": "text/plain", "own": 1}
    snapshot = await found(offering(resources=[item, PLAIN["resources"]]))
    template = {"uriTemplate": "a://{x}/y", "name": "n", "mimeType": "text/plain", "own": 1}
    assert (snapshot.templates, snapshot.resources, snapshot.dropped) == (
        {"a://{x}/y": template},
        {"a://a": PLAIN["resources"]},
        (),
    )


async def test_a_uri_with_braces_and_no_variable_stays_a_resource() -> None:
    uris = ["a://{", "a://}", "a://{}", "a://{x y}"]
    snapshot = await found(offering(resources=[{"uri": uri, "name": "n"} for uri in uris]))
    assert ([*snapshot.resources], snapshot.templates) == (uris, {})


async def test_the_templates_list_has_precedence_for_a_template_in_both_lists() -> None:
    snapshot = await found(
        offering(resources=[{"uri": "a://{x}", "name": "r"}], templates=[PLAIN["templates"]])
    )
    assert snapshot.templates == {"a://{x}": PLAIN["templates"]}


async def test_templates_from_the_resources_list_survive_a_failing_templates_list() -> None:
    before = await found(offering(resources=[{"uri": "a://{x}", "name": "r"}]))
    server = offering(templates=[{"uriTemplate": "b://{x}", "name": "b"}])
    server.answers["resources/list"] = failing_with(ConnectionFailure("cut off"))
    after = await found(server, before)
    assert ([*after.templates], [*after.failed_lists]) == (["a://{x}", "b://{x}"], ["resources"])


# Tools that need a task


async def test_a_tool_that_requires_a_task_is_not_offered() -> None:
    with capture_logs() as logs:
        async with offered(
            FakeServer(tool("a"), tool("t", execution={"taskSupport": "required"}))
        ) as (components, fleet):
            (snapshot,) = fleet.pool.snapshots.values()
            assert [it.spec.bare_name for it in components.tools] == ["a"]
    (dropped,) = snapshot.dropped
    assert ([*snapshot.need_task], dropped.name, dropped.needs_task) == (["t"], "t", True)
    assert "taskSupport" in dropped.reason
    (line,) = [line for line in logs if line["event"] == "server.item_dropped"]
    assert (line["name"], line["log_level"]) == ("t", "info"), "it is not an error"
