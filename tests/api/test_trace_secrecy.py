"""No span contains content of calls, documents or credentials."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from random import Random

import httpx
import pytest

from tests.support.bounds import until
from tests.support.builders import make_document
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.otlp_receiver import Receiver, export_to, receiving
from tests.support.service import BATCH, EXECUTE, PROMPTS, RESOURCES, Service, running
from tests.support.tokens import MODES, bearer

HUSH = "hush"
"""Part of every secret value, and of nothing that may be shown."""

CALLS = 300
SERVER_TOOLS = ("echo", "is_error", "meta", "rpc_error")


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as started:
        export_to(
            started.url, monkeypatch, OTEL_EXPORTER_OTLP_HEADERS="authorization=hush-of-collector"
        )
        yield started


@pytest.fixture
def caller() -> dict[str, str]:
    """The headers of a caller, whose token exists before the service starts."""
    _, mint = MODES["token"]
    return bearer(mint(tenant="acme", asserts_users=True))


@pytest.fixture
async def service(receiver: Receiver, caller: dict[str, str]) -> AsyncIterator[Service]:
    """Run the service, which requires tokens, with a server and a Retrieval Service."""

    def refuse(request: httpx.Request) -> httpx.Response:
        return httpx.Response(400, text=f"hush, of {request.content!r}")

    settings, _ = MODES["token"]
    preset = make_preset(tools=[("s1", tool) for tool in SERVER_TOOLS])
    async with (
        running_raw() as raw,
        running(
            make_document(tenant_id="acme", doc_id="book", title="hush", pages=["hush hush"]),
            config=Config(servers={"s1": raw.entry}, presets=[preset]),
            retrieval_transport=httpx.MockTransport(refuse),
            retrieval_window_url="http://retrieval/window?key=hush",
            retrieval_token="hush-retrieval",
            blocklist_keywords="hush-blocked",
            **settings(),
        ) as started,
    ):
        yield started


def random_value(random: Random) -> object:
    text = HUSH + random.choice(("", "-blocked", "x" * 5000, "é\u0000", "/../.."))
    return random.choice((text, [text], {text: text}, f"{HUSH}{random.random()}"))


def random_call(random: Random) -> dict[str, object]:
    tools = (
        "read_doc_section", "read_doc_pages", "read_doc_metadata", "doc_local_search",
        "read_chunk_window", "list_available_tools", *(f"s1:{tool}" for tool in SERVER_TOOLS),
        f"{HUSH}_tool", f"s1:{HUSH}", f"{HUSH}:echo",
    )  # fmt: skip
    arguments: dict[str, object] = {
        name: random_value(random)
        for name in random.sample(("query", "section_id", "anchor_chunk_id", "hush-key"), 2)
    }
    if random.random() < 0.7:
        arguments["doc_id"] = random.choice(("book", "book", f"{HUSH}-id"))
    if random.random() < 0.3:
        arguments = {"doc_id": random.choice(("book", f"{HUSH}-id")), "query": "hush"}
    return {"tool_name": random.choice(tools), "arguments": arguments}


async def send(service: Service, random: Random, headers: dict[str, str]) -> httpx.Response:
    user = {"user_id": f"{HUSH}-user", "roles": [f"{HUSH}-role"]}
    more = {"trace_id": "trace-1", "user": user}
    headers = headers | {"X-Forwarded-For": "hush", "User-Agent": "hush", "Cookie": "hush"}
    headers["baggage"] = "key=hush"
    match random.randrange(6):
        case 0:
            calls = [random_call(random) for _ in range(3)]
            return await service.http.post(BATCH, json={"calls": calls, **more}, headers=headers)
        case 1:
            body: dict[str, object] = {"uri": f"raw://item/{HUSH}", **more}
            return await service.http.post(f"{RESOURCES}/read", json=body, headers=headers)
        case 2:
            body = {"name": "greet", "arguments": {"who": HUSH}, **more}
            return await service.http.post(f"{PROMPTS}/get", json=body, headers=headers)
        case 3:
            body = {"tool_name": [HUSH], "hush": HUSH}
            return await service.http.post(f"{EXECUTE}?q=hush", json=body, headers=headers)
        case _:
            body = {**random_call(random), **more}
            return await service.http.post(EXECUTE, json=body, headers=headers)


async def test_no_span_of_many_calls_contains_a_secret(
    service: Service, receiver: Receiver, caller: dict[str, str]
) -> None:
    random = Random(18)  # noqa: S311 - examples, no secret
    answers = []
    for _ in range(CALLS // 10):
        headers = [*[caller] * 9, bearer("hush-token")]
        answers += await asyncio.gather(
            *(send(service, random, dict(random.choice(headers))) for _ in range(10))
        )
    last = {"doc_id": "book", "query": "hush"}
    body = {"tool_name": "doc_local_search", "arguments": last, "user": {"user_id": "u"}}
    answers.append(await service.http.post(EXECUTE, json=body, headers=caller))
    assert answers[-1].json()["status"] == "ok", answers[-1].text
    last_id = answers[-1].headers["X-Trace-Id"]
    await until(lambda: any(it.trace_id == last_id for it in receiver.named(f"POST {EXECUTE}")))
    assert len({span.name for span in receiver.spans}) > 15
    assert {it.error_type for it in receiver.spans} > {
        None, "UNAUTHENTICATED", "INVALID_REQUEST", "INVALID_ARGUMENTS", "TOOL_NOT_FOUND",
        "DOCUMENT_NOT_FOUND", "CONTENT_BLOCKED", "TOOL_FAILED", "tool_error",
    }  # fmt: skip
    assert [span for span in receiver.spans if HUSH in repr(span)] == []
    assert HUSH.encode() not in receiver.raw
    assert caller["Authorization"].encode() not in receiver.raw
    assert {span.events for span in receiver.spans} == {0}
