import asyncio
import threading
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.offers import InvalidItem, Snapshot
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.discovery import discover
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.json_schema.validator import compile_check
from tests.support.tables import each_row
from tests.support.virtual_time import clock
from tests.unit.downstream.fake_server import (
    FIELDS,
    METHOD_NOT_FOUND,
    Answer,
    FakeConnection,
    FakeServer,
    answering,
    failing_with,
    hang,
    in_turn,
    tool,
)
from tests.unit.downstream.neighbour_task import neighbour_task

MIRRORS_AN_OBJECT = {"type": "object", "properties": {"x": {"type": "object", "x-mcp-header": "X"}}}
NOT_MIRRORED = (
    "its inputSchema is not one of MCP's: property 'x': x-mcp-header is only permitted on "
    "integer/string/boolean properties (got 'object')"
)

NOT_JSON = "it is nested too deeply, or has text that is not valid Unicode"
EVERYTHING: dict[str, object] = {"tools": {}, "prompts": {}, "resources": {}}


async def found(
    server: FakeServer, previous: Snapshot | None = None, *, include_undeclared: bool = False
) -> Snapshot:
    link = FakeConnection(server, lambda: None)
    return await discover(link, previous, timeout_s=5, include_undeclared=include_undeclared)


def dropped(*tools: Any) -> Any:
    async def reasons() -> list[tuple[str, str]]:
        snapshot = await found(FakeServer(*tools))
        return [(item.name, item.reason) for item in snapshot.dropped]

    return reasons()


def large_tool() -> dict[str, Any]:
    properties = {f"p{i}": {"type": "string"} for i in range(5000)}
    return tool("large") | {"inputSchema": {"type": "object", "properties": properties}}


async def test_processing_a_long_list_does_not_block_other_tasks() -> None:
    tools = [tool(f"t{i}") for i in range(2000)]
    async with neighbour_task(steps=80) as neighbour:
        snapshot = await found(FakeServer(*tools))
        assert (len(snapshot.checks), neighbour.done()) == (len(tools), True)


class ReadWhenSet(dict[str, Any]):
    """A tool that can be read only after an event is set: simulates a long check."""

    def __init__(self, listed: dict[str, Any], event: threading.Event) -> None:
        super().__init__(listed)
        self._event = event

    def get(self, key: str, default: Any = None) -> Any:
        assert self._event.wait(timeout=20), "nothing else ran while the tool was checked"
        return super().get(key, default)


async def test_checking_a_large_schema_does_not_block_other_tasks() -> None:
    others_went_on = threading.Event()
    async with neighbour_task(steps=80) as neighbour:
        neighbour.add_done_callback(lambda _: others_went_on.set())
        snapshot = await found(FakeServer(ReadWhenSet(large_tool(), others_went_on)))
        assert [*snapshot.checks] == ["large"]


@pytest.fixture
def full() -> FakeServer:
    server = FakeServer(tool("add"))
    server.capabilities = EVERYTHING
    server.lists["prompts/list"] = [{"name": "hello"}]
    server.lists["resources/list"] = [{"uri": "test://a", "name": "a"}, {"name": "nameless"}]
    server.lists["resources/templates/list"] = [{"uriTemplate": "test://a/{id}", "name": "t"}]
    return server


async def test_all_four_categories_are_found_by_their_keys(full: FakeServer) -> None:
    snapshot = await found(full)
    assert (
        [*snapshot.tools],
        [*snapshot.prompts],
        [*snapshot.resources],
        [*snapshot.templates],
    ) == (["add"], ["hello"], ["test://a", "nameless"], ["test://a/{id}"])


async def test_descriptors_are_kept_unchanged() -> None:
    raw = tool(
        "add",
        title="Add",
        inputSchema={"type": "object", "$defs": {"N": {"type": "number"}}, "x-vendor": 1},
        annotations={"readOnlyHint": False, "vendor": [1]},
        _meta={"k": "v"},
        newField=None,
    )
    assert (await found(FakeServer(raw))).tools["add"] == raw


async def test_every_page_is_fetched() -> None:
    server = FakeServer()
    server.answers["tools/list"] = in_turn(
        answering({"tools": [tool("a")], "nextCursor": "2"}),
        answering({"tools": [tool("b")], "nextCursor": "3"}),
        answering({"tools": [tool("c")]}),
    )
    snapshot = await found(server)
    assert ([*snapshot.tools], server.calls("tools/list")) == (
        ["a", "b", "c"],
        [{}, {"cursor": "2"}, {"cursor": "3"}],
    )


async def test_an_undeclared_category_is_not_requested() -> None:
    server = FakeServer(tool("add"))
    await found(server)
    assert [method for method, _ in server.requests] == ["tools/list"]


async def test_a_list_with_an_unknown_method_is_not_offered(full: FakeServer) -> None:
    full.answers["resources/templates/list"] = failing_with(METHOD_NOT_FOUND)
    snapshot = await found(full)
    assert (snapshot.templates, snapshot.failed_lists) == ({}, {})


@pytest.mark.requirement("P-15")
async def test_a_failing_list_keeps_its_known_items(full: FakeServer) -> None:
    previous = await found(full)
    full.answers["prompts/list"] = failing_with(JsonRpcError(-32603, "boom"))
    full.lists["tools/list"] = [tool("new")]
    snapshot = await found(full, previous)
    assert ([*snapshot.tools], [*snapshot.prompts], snapshot.failed_lists) == (
        ["new"],
        ["hello"],
        {"prompts": 'it answered with error -32603: "boom"'},
    )


async def test_a_failing_list_keeps_its_compiled_checks(full: FakeServer) -> None:
    previous = await found(full)
    full.answers["tools/list"] = hang
    assert [*(await found(full, previous)).checks] == ["add"]


@pytest.mark.requirement("P-15")
async def test_the_lists_are_fetched_concurrently(full: FakeServer) -> None:
    for method in ("tools/list", "prompts/list", "resources/list"):
        full.answers[method] = hang
    started = clock()
    snapshot = await found(full)
    assert (round(clock() - started, 1), len(snapshot.failed_lists)) == (2.5, 3)


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/templates/list"])
async def test_an_unanswered_list_does_not_affect_the_others(full: FakeServer, method: str) -> None:
    everything = (await found(full)).by_category
    full.answers[method] = hang
    snapshot = await found(full)
    [category] = snapshot.unlisted
    assert snapshot.by_category == {**everything, category: {}}
    assert snapshot.failed_lists == {category: "it did not answer within 2.5 s"}
    del full.answers[method]
    again = await found(full, snapshot)
    assert (again.by_category, again.unlisted) == (everything, frozenset())


async def test_slow_lists_can_use_the_full_timeout(full: FakeServer) -> None:
    for method in full.lists:
        full.answers[method] = after_the_half(full, method)
    assert (await found(full)).failed_lists == {}


def after_the_half(server: FakeServer, method: str) -> Answer:
    async def answer(_: Any) -> dict[str, Any]:
        await asyncio.sleep(4)
        return {FIELDS[method]: server.lists[method]}

    return answer


@each_row("others", [{}, {"prompts": {}}], ids=["nothing", "prompts"])
async def test_undeclared_tools_are_requested_once(others: JsonObject) -> None:
    server = FakeServer(tool("add"))
    server.capabilities = others
    assert [*(await found(server, include_undeclared=True)).tools] == ["add"]
    assert len(server.calls("tools/list")) == 1
    await found(server, Snapshot())
    assert len(server.calls("tools/list")) == 1


@each_row(
    "answer",
    [hang, failing_with(METHOD_NOT_FOUND), failing_with(ConnectionFailure("closed"))],
    ids=["never", "unknown", "closed"],
)
async def test_a_failing_list_of_undeclared_tools_is_not_an_error(answer: Answer) -> None:
    server = FakeServer()
    server.capabilities = {}
    server.answers["tools/list"] = answer
    assert await found(server, include_undeclared=True) == Snapshot()


async def test_undeclared_tools_are_requested_again_while_the_list_is_not_empty() -> None:
    server = FakeServer(tool("add"))
    server.capabilities = {}
    first = await found(server, include_undeclared=True)
    assert await found(server, first) == first


async def test_failure_of_all_lists_is_an_error() -> None:
    server = FakeServer()
    server.answers["tools/list"] = failing_with(ConnectionFailure("garbage"))
    with pytest.raises(ConnectionFailure, match="tools: garbage"):
        await found(server)


@each_row("cursors", [["x", "x"], ["x", "y", "x"], ["x", "y", "y"]])
async def test_a_repeated_cursor_ends_the_list_with_the_items_read(cursors: list[str]) -> None:
    server = FakeServer()
    pages = [
        answering({"tools": [tool(f"t{at}")], "nextCursor": it}) for at, it in enumerate(cursors)
    ]
    server.answers["tools/list"] = in_turn(*pages)
    snapshot = await found(server)
    names = [f"t{at}" for at in range(len(cursors))]
    assert ([*snapshot.tools], snapshot.failed_lists) == (names, {})


@each_row(
    ("era", "cursor", "names"),
    [
        ("2026-07-28", "", ["a", "b"]),
        ("2025-11-25", "", ["a"]),
        ("2024-11-05", "", ["a"]),
        ("2026-07-28", None, ["a"]),
        ("2026-07-28", 7, ["a"]),
        ("2025-11-25", "0", ["a", "b"]),
    ],
)
async def test_an_empty_cursor_is_valid_only_in_the_modern_protocol(
    era: str, cursor: object, names: list[str]
) -> None:
    server = FakeServer()
    server.answers["tools/list"] = in_turn(
        answering({"tools": [tool("a")], "nextCursor": cursor}), answering({"tools": [tool("b")]})
    )
    link = FakeConnection(server, lambda: None)
    link.era = era
    snapshot = await discover(link, None, timeout_s=5)
    assert ([*snapshot.tools], snapshot.failed_lists) == (names, {})


async def test_a_server_without_items_is_valid() -> None:
    server = FakeServer()
    server.capabilities = {}
    assert await found(server) == Snapshot()


@each_row(
    ("page", "reason"),
    [
        ({"tools": {}}, "no list of tools"),
        ({}, "no list of tools"),
        ({"tools": [1] * 20_001}, "more than 20000 items"),
    ],
)
async def test_a_malformed_or_endless_list_is_an_error(page: dict[str, Any], reason: str) -> None:
    server = FakeServer()
    server.answers["tools/list"] = answering(page)
    with pytest.raises(ConnectionFailure, match=reason):
        await found(server)


async def test_the_number_of_pages_is_bounded() -> None:
    server = FakeServer()

    async def next_page(params: Any) -> dict[str, Any]:
        return {"tools": [], "nextCursor": params.get("cursor", "") + "x"}

    server.answers["tools/list"] = next_page
    with pytest.raises(ConnectionFailure, match="pages"):
        await found(server)


async def test_all_pages_together_have_one_timeout() -> None:
    server = FakeServer()

    async def next_page(params: Any) -> dict[str, Any]:
        await asyncio.sleep(2)
        return {"tools": [], "nextCursor": params.get("cursor", "") + "x"}

    server.answers["tools/list"] = next_page
    started = clock()
    with pytest.raises(ConnectionFailure, match="within 5 s"):
        await found(server)
    assert clock() - started == pytest.approx(5.0)


async def test_an_invalid_item_is_dropped_and_reported_and_the_others_stay() -> None:
    snapshot = await found(FakeServer(tool("a"), tool("b", inputSchema=[]), tool("c")))
    assert ([*snapshot.tools], snapshot.dropped) == (
        ["a", "c"],
        (InvalidItem(kind=Kind.TOOL, name="b", reason="its inputSchema is not an object"),),
    )


@each_row(
    ("item", "name", "reason"),
    [
        (7, "item 1", "it is not an object"),
        ({}, "item 1", "it has no name"),
        (tool(""), "item 1", "it has no name"),
        ({"name": 7}, "item 1", "it has no name"),
        (tool("a\nb"), r"a\nb", "its name holds a control character"),
        (tool("x" * 1025), "x" * 128, "its name is over 1024 characters"),
        (tool("a", inputSchema=True), "a", "its inputSchema is not an object"),
        (tool("a", inputSchema={"type": "array"}), "a", 'its inputSchema is not of type "object"'),
        (tool("a", x="\ud800"), "a", NOT_JSON),
        (tool("a", inputSchema=MIRRORS_AN_OBJECT), "a", NOT_MIRRORED),
    ],
)  # fmt: skip
async def test_an_unusable_tool_is_dropped_with_the_reason(
    item: Any, name: str, reason: str
) -> None:
    assert await dropped(item) == [(name, reason)]


async def test_a_tool_whose_schema_cannot_be_compiled_is_dropped() -> None:
    broken = tool("a", inputSchema={"type": "object", "properties": {"x": {"pattern": "("}}})
    [(_, reason)] = await dropped(broken)
    assert reason.startswith("its inputSchema cannot be compiled")


async def test_a_missing_input_schema_takes_any_object() -> None:
    snapshot = await found(FakeServer({"name": "a"}))
    assert snapshot.checks["a"] is compile_check({"type": "object"})


async def test_the_first_of_two_tools_with_the_same_name_is_used() -> None:
    server = FakeServer(tool("a", title="first"), tool("a", title="second"))
    snapshot = await found(server)
    assert (snapshot.tools["a"]["title"], [item.name for item in snapshot.dropped]) == (
        "first",
        ["a"],
    )


@pytest.mark.parametrize(
    ("method", "item", "reason"),
    [
        ("prompts/list", {"name": 5}, "it has no name"),
        ("resources/list", {}, "it has no name"),
        ("resources/list", {"uri": 7, "name": "r"}, "it has no uri"),
        ("resources/templates/list", {"name": "t"}, "it has no uriTemplate"),
    ],
)
async def test_unusable_prompts_and_resources_are_dropped(
    full: FakeServer, method: str, item: dict[str, Any], reason: str
) -> None:
    full.lists[method] = [item]
    assert [one.reason for one in (await found(full)).dropped] == [reason]


async def test_a_template_that_cannot_be_parsed_is_dropped(full: FakeServer) -> None:
    full.lists["resources/templates/list"] = [{"uriTemplate": "test://{", "name": "t"}]
    [item] = (await found(full)).dropped
    assert item.reason.startswith("its uriTemplate cannot be parsed")


async def test_equal_lists_give_equal_snapshots(full: FakeServer) -> None:
    assert await found(full) == await found(full)
