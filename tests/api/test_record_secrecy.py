"""No record or metric contains content of calls or documents."""

import json
from random import Random

from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import BATCH, EXECUTE, Service, running
from tests.support.tokens import MODES, bearer

HUSH = "hush"
"""Part of every secret value, and of nothing that may be shown."""

CALLS = 500
SERVER_TOOLS = ("echo", "is_error", "meta", "rpc_error")
TOOLS = (
    *("read_doc_section", "read_doc_pages", "read_doc_metadata", "doc_local_search"),
    *("read_chunk_window", "list_available_tools", "unknown", "s1:unknown"),
    *(f"s1:{tool}" for tool in SERVER_TOOLS),
)


def random_call(random: Random) -> dict[str, object]:
    text = HUSH + random.choice(("", "x" * 3000, "é\u0000", '"}\n{', "/../.."))
    value = random.choice((text, [text], {text: text}, {"deep": [{text: [text]}]}))
    names = ("query", "section_id", "anchor_chunk_id", "page_start", HUSH, f"{HUSH}-{text[:20]}")
    arguments: dict[str, object] = dict.fromkeys(random.sample(names, 2), value)
    if random.random() < 0.8:
        arguments["doc_id"] = random.choice(("book", "other", HUSH * 200, f"{HUSH}\n", [HUSH]))
    return {"tool_name": random.choice(TOOLS), "arguments": arguments}


async def send(service: Service, random: Random, headers: dict[str, str]) -> None:
    user = {"user_id": "u", "tenant_id": "acme"}
    match random.randrange(4):
        case 0:
            calls = [random_call(random) for _ in range(3)]
            await service.http.post(BATCH, json={"calls": calls, "user": user}, headers=headers)
        case 1:
            call = random_call(random)
            params = {"name": call["tool_name"], "arguments": call["arguments"]}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            accept = {"Accept": "application/json, text/event-stream"}
            await service.http.post("/mcp", json=message, headers=headers | accept)
        case _:
            await service.http.post(
                EXECUTE, json={**random_call(random), "user": user}, headers=headers
            )


async def test_no_record_or_metric_contains_content_of_calls_or_documents() -> None:
    settings, mint = MODES["token"]
    preset = make_preset(tools=[("s1", tool) for tool in SERVER_TOOLS])
    headers = bearer(mint(tenant="acme", asserts_users=True))
    random = Random(18)  # noqa: S311 - the same calls each time
    async with (
        running_raw() as raw,
        running(
            make_document(tenant_id="acme", doc_id="book", title=HUSH, pages=["hush hush"]),
            config=Config(servers={"s1": raw.entry}, presets=[preset]),
            blocklist_keywords="blocked",
            **settings(),
        ) as service,
    ):
        with capture_logs() as lines:
            for _ in range(CALLS):
                await send(service, random, headers)
        metrics = (await service.http.get("/metrics")).text
        recent = list(service.gateway.audit.recent())
    shown = [line for line in [*lines, *recent] if HUSH in json.dumps(line, default=str)]
    assert shown == []
    assert HUSH not in metrics
    assert len(lines) > CALLS
