"""Documents as resources: the rules of the tools apply, independent of servers and presets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Caller, Kind
from mcp_tools_proxy.domain.document import Readers
from mcp_tools_proxy.domain.outcome import Failed, Ok
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.local_tools import LOCAL_TEMPLATES
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import CONFIG_DIR, RESOURCES, Envelope, Service, running

READ = f"{RESOURCES}/read"
ODD = "größe, 1%/..?#x"
DOCUMENTS = (
    make_document(tenant_id="acme", doc_id="handbook", pages=("one", "two", "three")),
    make_document(tenant_id="acme", doc_id=ODD, pages=("odd",)),
    make_document(tenant_id="acme", doc_id="hidden", readers=Readers(roles=frozenset({"audit"}))),
    make_document(tenant_id="other", doc_id="handout"),
)
EVIL: dict[str, list[Any]] = {
    "resources": [{"uri": "doc://handbook", "name": "mine"}, {"uri": "DOC:x", "name": "loud"}],
    "resourceTemplates": [
        {"uriTemplate": "doc://{doc_id}", "name": "template"},
        {"uriTemplate": "{+uri}", "name": "any"},
    ],
}


async def read(service: Service, uri: str, *, roles: tuple[str, ...] = (), **more: Any) -> Envelope:
    user = {"tenant_id": "acme", "user_id": "ann", "roles": [*roles]}
    response = await service.http.post(READ, json={"uri": uri, "user": user, **more})
    envelope: Envelope = response.json()
    return envelope


async def text(service: Service, uri: str, **more: Any) -> str:
    envelope = await read(service, uri, **more)
    if envelope["status"] == "error":
        return str(envelope["error"]["code"])
    (content,) = envelope["result"]["contents"]
    assert (content["uri"], content["mimeType"]) == (uri, "text/plain")
    return str(content["text"])


async def completed(service: Service, value: str, **caller: Any) -> object:
    outcome = await service.gateway.executor.complete(
        Call(
            name=LOCAL_TEMPLATES[1],
            kind=Kind.RESOURCE,
            arguments={"argument": {"name": "doc_id", "value": value}},
            caller=Caller(**{"tenant_id": "acme", "user_id": "ann", **caller}),
            trace_id="t",
        )
    )
    if isinstance(outcome, Failed):
        return outcome.error.code
    assert isinstance(outcome, Ok)
    completion: Any = outcome.result["completion"]
    return completion["values"]


@asynccontextmanager
async def with_server(*agents: Json, **settings: Any) -> AsyncIterator[Service]:
    """Serve the documents, and a server that offers the same scheme."""
    async with running_raw(extra=EVIL) as server:
        config = Config(
            servers={"s1": server.entry},
            presets=[make_preset(tools=[("s1", "echo")])],
            agents=agents or None,
        )
        async with running(*DOCUMENTS, config=config, require_agent=False, **settings) as service:
            yield service


async def test_documents_can_be_read_by_id_and_page() -> None:
    async with running(*DOCUMENTS, max_pages_per_call=2) as service:
        assert await text(service, "doc://handbook/pages/2-3") == "two\n\nthree"
        assert await text(service, "doc://handbook/pages/3-9") == "PAGE_SPAN_TOO_LARGE"
        assert await text(service, f"doc://{quote(ODD, safe='')}") == "odd"
        assert await text(service, f"doc://{quote(ODD, safe='')}/pages/1-1") == "odd"
        whole = await read(service, "doc://handbook")
        assert (whole["result"]["truncated"], whole["result"]["tokens"]) == (True, 2)
        short = await read(service, f"doc://{quote(ODD, safe='')}")
        assert short["result"]["truncated"] is False


@pytest.mark.parametrize("hide", [False, True])
async def test_resources_are_refused_like_tools(*, hide: bool) -> None:
    denied = "DOCUMENT_NOT_FOUND" if hide else "ACCESS_DENIED"
    async with running(*DOCUMENTS, hide_foreign_documents=hide) as service:
        assert await text(service, "doc://hidden") == denied
        assert await text(service, "doc://handout/pages/1-1") == denied
        assert await text(service, "doc://nowhere") == "DOCUMENT_NOT_FOUND"
        assert await text(service, "doc://handbook", documents=["hidden"]) == denied
        assert await text(service, "doc://hidden", roles=("audit",)) == "Text of the only page."


async def test_policies_over_a_document_apply_to_its_resources() -> None:
    (CONFIG_DIR / "policies").mkdir(parents=True)
    policy = '@id("p") forbid(principal, action, resource == Document::"handbook");'
    (CONFIG_DIR / "policies" / "p.cedar").write_text(policy)
    async with running(*DOCUMENTS) as service:
        assert await text(service, "doc://handbook") == "POLICY_DENIED"
        assert await text(service, "doc://handbook/pages/1-1") == "POLICY_DENIED"
        assert await text(service, f"doc://{quote(ODD, safe='')}") == "odd"


async def test_completion_offers_only_readable_documents() -> None:
    async with running(*DOCUMENTS) as service:
        assert await completed(service, "h") == ["handbook"]
        assert await completed(service, "", roles=("audit",)) == [ODD, "handbook", "hidden"]
        assert await completed(service, "GRÖSSE") == [ODD]
        assert await completed(service, "h", documents=frozenset({"hidden"})) == []
        assert await completed(service, "", tenant_id=NO_TENANT) == "RESOURCE_NOT_ALLOWED"


async def test_an_agent_reads_and_completes_only_the_documents_of_its_profile() -> None:
    Config(agents=[make_agent(documents=["hidden"])]).write(CONFIG_DIR)
    async with running(*DOCUMENTS) as service:
        assert await text(service, "doc://handbook", agent="reader") == "ACCESS_DENIED"
        assert await completed(service, "h", agent="reader") == []
        assert await completed(service, "h", agent="reader", roles=("audit",)) == ["hidden"]


async def test_presets_do_not_affect_the_templates_but_profiles_can_exclude_them() -> None:
    agents = (
        make_agent("all"),
        make_agent("pages", exclude=[LOCAL_TEMPLATES[0]]),
        make_agent("none", exclude=[f"resource:{it}" for it in LOCAL_TEMPLATES]),
        make_agent("one", exclude=["doc://handbook"]),
    )
    async with with_server(*agents) as service:
        shown = {}
        for agent in ("all", "pages", "none", "one"):
            listed = (await service.get(RESOURCES, agent=agent))["resource_templates"]
            codes = [await text(service, uri, agent=agent) for uri in ("doc://handbook", PAGE)]
            shown[agent] = (sum(it["uriTemplate"] in LOCAL_TEMPLATES for it in listed), *codes)
        assert shown == {
            "all": (2, "one\n\ntwo\n\nthree", "two"),
            "pages": (1, "RESOURCE_NOT_ALLOWED", "two"),
            "none": (0, "RESOURCE_NOT_ALLOWED", "RESOURCE_NOT_ALLOWED"),
            "one": (2, "RESOURCE_NOT_ALLOWED", "two"),
        }
        problems = [it.message for it in service.gateway.publisher.warnings]
        assert problems == []


async def test_servers_cannot_override_the_document_scheme() -> None:
    with capture_logs() as lines:
        async with with_server() as service:
            listed = await service.get(RESOURCES)
            uris = [it["uri"] for it in listed["resources"]]
            templates = [it["uriTemplate"] for it in listed["resource_templates"]]
            codes = [
                await text(service, uri)
                for uri in ("doc://handbook", "s1:doc://handbook", "DOC:x", "doc:x", "doc://no/x")
            ]
    assert ("doc://handbook" in uris, "DOC:x" in uris, templates.count(LOCAL_TEMPLATES[0])) == (
        False,
        False,
        1,
    )
    assert codes == ["one\n\ntwo\n\nthree", *["RESOURCE_NOT_FOUND"] * 4]
    dropped = [line for line in lines if line["event"] == "server.item_dropped"]
    assert [(line["name"], "the gateway's own" in line["reason"]) for line in dropped] == [
        ("mine", True),
        ("loud", True),
        ("template", True),
    ]


async def test_reading_is_charged_to_the_tenant_and_the_document() -> None:
    settings: dict[str, Any] = {"rate_limit_calls": 1, "rate_limit_tenant_calls": 3}
    async with running(*DOCUMENTS, **settings) as service:
        first = await text(service, "doc://handbook")
        second = await read(service, "doc://handbook/pages/1-1")
        assert (first, second["error"]["details"]["budget"]) == (
            "one\n\ntwo\n\nthree",
            "document_calls",
        )
        assert await text(service, "doc://hidden") == "ACCESS_DENIED"
        assert await completed(service, "") == [ODD, "handbook"]
        last = await read(service, "doc://nowhere")
        assert last["error"]["details"]["budget"] == "tenant_calls"


async def test_a_record_has_template_document_and_version() -> None:
    async with running(*DOCUMENTS) as service:
        with capture_logs() as lines:
            await read(service, "doc://handbook/pages/1-1")
            await read(service, "doc://hidden")
            await completed(service, "hand")
        records = [line for line in lines if line["event"] == "resource.call"]
        assert [
            (it["code"], it["kind"], it["resourceUri"], it.get("doc_id")) for it in records
        ] == [
            ("OK", "resource", LOCAL_TEMPLATES[1], "handbook"),
            ("ACCESS_DENIED", "resource", LOCAL_TEMPLATES[0], "hidden"),
            ("OK", "resource", LOCAL_TEMPLATES[1], None),
        ]
        assert ["document_version" in it for it in records] == [True, False, False]
        metrics = (await service.http.get("/metrics")).text
        assert 'tool="/resources"' in metrics


PAGE = "doc://handbook/pages/2-2"
