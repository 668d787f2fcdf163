"""The routes that manage documents, with the folder and with PostgreSQL."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fpdf import FPDF

from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.domain.identity import OperatorRight
from tests.api.document_operator import (
    CONTENT,
    DOC,
    LIST,
    MARKDOWN,
    NEW,
    NOTE,
    RIGHTS,
    Operator,
    operated,
    outcome,
)
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.postgres_databases import Databases
from tests.support.service import running
from tests.support.tokens import file_token, token_settings


@pytest.fixture(params=["folder", "postgres"])
async def operator(request: pytest.FixtureRequest, databases: Databases) -> AsyncIterator[Operator]:
    settings: dict[str, object] = {}
    if request.param == "postgres":
        settings |= {"documents_url": (await databases.new()).url, "documents_timeout": BOUND_S}
    async with operated(**settings) as made:
        yield made


@pytest.fixture
async def in_folder() -> AsyncIterator[Operator]:
    async with operated() as made:
        yield made


def write(name: str, content: str) -> None:
    Path(name).write_text(content)


async def test_a_note_can_be_put_read_and_removed(operator: Operator) -> None:
    with capture_logs() as lines:
        put = await operator.put_note(query={**DOC, "title": "Mine", "tag": ["x", "y"]})
        assert put.status_code == 201
        facts = put.json()
        assert (facts["title"], facts["tags"], facts["pages"]) == ("Mine", ["x", "y"], 1)
        assert put.headers["ETag"] == f'"{facts["version"]}"'
        await wait_until_code(operator, "OK")
        read = await operator.send("GET", CONTENT)
        assert (read.status_code, read.headers["ETag"]) == (200, put.headers["ETag"])
        assert (read.json()["pages"], read.json()["doc_id"]) == ([NOTE.decode()], DOC["doc_id"])
        listed = await operator.send("GET", LIST, {"tenant_id": "acme"})
        assert listed.json() == {"documents": [facts]}
        removed = await operator.send("DELETE", CONTENT, If_Match=put.headers["ETag"])
        assert (removed.status_code, removed.json()) == (200, facts)
        await wait_until_code(operator, "DOCUMENT_NOT_FOUND")
        assert outcome(await operator.send("GET", CONTENT)) == (404, "NOT_FOUND")
    events = [line["event"] for line in lines]
    assert events.count("document.added") == events.count("document.removed") == 1
    used = [line for line in lines if "right" in line]
    assert {(line["right"], line["tenant_id"]) for line in used} == {("documents", "acme")}
    assert {line.get("doc_id") for line in used} == {None, DOC["doc_id"]}
    assert len(used) == 5  # one for each request: put, read, list, remove, and the last read


async def wait_until_code(operator: Operator, wanted: str, **call: Any) -> None:
    while await operator.code(**call) != wanted:  # noqa: ASYNC110 - asked by calls
        await asyncio.sleep(0.02)


async def test_a_pdf_is_imported_with_any_content_type(operator: Operator) -> None:
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    pdf.add_page()
    pdf.cell(text="some text")
    for number, kind in enumerate(("application/pdf", "application/octet-stream")):
        query = {**DOC, "doc_id": f"pdf{number}"}
        content = bytes(pdf.output())
        put = await operator.send(
            "PUT", CONTENT, query, content, Content_Type=kind, If_None_Match="*"
        )
        assert (put.status_code, put.json().get("pages")) == (201, 1)


async def test_a_downloaded_document_can_be_uploaded_again(operator: Operator) -> None:
    await operator.put_json()
    read = await operator.send("GET", CONTENT)
    content = json.dumps(read.json() | {"title": "Other", "readers": {"users": ["ann"]}})
    kind = "application/json"
    put = await operator.send(
        "PUT", CONTENT, DOC, content, Content_Type=kind, If_Match=read.headers["ETag"]
    )
    assert (put.status_code, put.json()["title"]) == (200, "Other")
    assert put.json()["readers"] == {"users": ["ann"], "roles": []}


async def test_a_change_needs_the_current_version(operator: Operator) -> None:
    assert outcome(await operator.send("PUT", CONTENT, DOC, NOTE, **MARKDOWN)) == (
        428,
        "VERSION_REQUIRED",
    )
    first = await operator.put_json()
    for headers in (NEW, {"If-Match": '"other"'}, {"If-Match": f"W/{first.headers['ETag']}x"}):
        refused = await operator.put_json("Two", **headers)
        assert outcome(refused) == (412, "VERSION_MISMATCH")
        assert refused.json()["error"]["details"] == {"version": first.json()["version"]}
    assert (await operator.put_json("Two", If_Match=first.headers["ETag"])).status_code == 200
    assert outcome(await operator.put_note(b"# Three", If_Match=first.headers["ETag"])) == (
        412,
        "VERSION_MISMATCH",
    )
    assert outcome(await operator.send("DELETE", CONTENT)) == (428, "VERSION_REQUIRED")
    assert (await operator.put_json("Three", If_Match="*")).status_code == 200
    missing = {**DOC, "doc_id": "none"}
    assert outcome(await operator.put_json(query=missing, If_Match="*")) == (
        412,
        "VERSION_MISMATCH",
    )


async def test_rights_have_their_own_tag_and_survive_a_new_version(
    operator: Operator,
) -> None:
    await operator.put_json()
    shown = await operator.send("GET", RIGHTS)
    assert "readers" not in shown.json()
    only_it = json.dumps({"readers": {"roles": ["it"]}})
    assert outcome(await operator.send("PUT", RIGHTS, DOC, only_it)) == (428, "VERSION_REQUIRED")
    put = await operator.send("PUT", RIGHTS, DOC, only_it, If_Match=shown.headers["ETag"])
    assert (put.status_code, put.json()["readers"]) == (200, {"users": [], "roles": ["it"]})
    stale = await operator.send("PUT", RIGHTS, DOC, only_it, If_Match=shown.headers["ETag"])
    assert outcome(stale) == (412, "VERSION_MISMATCH")
    await wait_until_code(operator, "ACCESS_DENIED")
    assert await operator.code(roles=["it"]) == "OK"
    replaced = await operator.put_note(b"# Two", If_Match="*")
    assert replaced.json()["readers"] == {"users": [], "roles": ["it"]}
    read = await operator.send("GET", CONTENT)
    assert "readers" not in read.json()  # putting it back later would undo a change of rights
    for_all = json.dumps({"all_users": True})
    opened = await operator.send("PUT", RIGHTS, DOC, for_all, If_Match="*")
    assert "readers" not in opened.json()
    await wait_until_code(operator, "OK")


UNCLEAR_RIGHTS: tuple[dict[str, Any], ...] = (
    {},
    {"readers": None},
    {"reader": {"users": ["ann"]}},
    {"readers": {"user": ["ann"]}},
    {"readers": {"users": ["ann"]}, "all_users": True},
    {"readers": {"users": [""]}},
    {"all_users": False},
)


async def test_ambiguous_rights_are_refused(in_folder: Operator) -> None:
    await in_folder.put_json()
    for body in UNCLEAR_RIGHTS:
        refused = await in_folder.send("PUT", RIGHTS, DOC, json.dumps(body), If_Match="*")
        assert outcome(refused) == (422, "INVALID_REQUEST"), body
        assert "readers" not in (await in_folder.send("GET", RIGHTS)).json(), body


async def test_a_list_has_pages(operator: Operator) -> None:
    writer = operator.service.gateway.documents.writer
    for number in range(105):
        await writer.put(
            make_document(tenant_id="acme", doc_id=f"d{number:03}"),
            expected=Expected.NOTHING,
            keep_readers=False,
        )
    first = (await operator.send("GET", LIST, {"tenant_id": "acme"})).json()
    assert len(first["documents"]) == 100
    query = {"tenant_id": "acme", "cursor": first["next_cursor"]}
    second = (await operator.send("GET", LIST, query)).json()
    assert [it["doc_id"] for it in second["documents"]] == [f"d{n}" for n in range(100, 105)]
    assert "next_cursor" not in second


async def test_the_operator_of_all_tenants_sees_broken_files(in_folder: Operator) -> None:
    await in_folder.put_json()
    write("documents/acme/bad.json", "{")
    await in_folder.service.gateway.documents.connect()
    listed = (await in_folder.send("GET", LIST, {})).json()
    assert [it["file"] for it in listed["problems"]] == ["acme/bad.json"]
    assert "problems" not in (await in_folder.send("GET", LIST, {"tenant_id": "acme"})).json()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"tenant_id": "acme"}, "doc_id"),
        ({"doc_id": "x"}, "tenant_id"),
        ({**DOC, "doc_id": "a\n"}, "doc_id"),
        ([*DOC.items(), ("tenant_id", "globex")], "tenant_id"),
    ],
)
async def test_an_invalid_document_query_is_refused(
    in_folder: Operator, query: Any, field: str
) -> None:
    refused = await in_folder.send("GET", CONTENT, query)
    assert outcome(refused) == (422, "INVALID_REQUEST")
    assert refused.json()["error"]["details"]["field"] == field


async def test_an_invented_cursor_is_refused(in_folder: Operator) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 3_000).decode()
    for cursor in ("x", "eyJhIjoxfQ==", "\x00", deep):
        refused = await in_folder.send("GET", LIST, {"tenant_id": "acme", "cursor": cursor})
        assert outcome(refused) == (422, "INVALID_REQUEST")


async def test_the_right_is_limited_to_the_tenant_of_the_token() -> None:
    async with running(**token_settings()) as service:
        mine = file_token(tenant="acme", may=[OperatorRight.DOCUMENTS])
        all_tenants = file_token(tenant=None, may=[OperatorRight.DOCUMENTS])
        others = file_token(tenant="acme", may={*OperatorRight} - {OperatorRight.DOCUMENTS})
        assert service.gateway.tokens is not None
        await service.gateway.tokens.load()
        operator = Operator(service, mine)
        assert (await operator.put_json()).status_code == 201
        foreign = {**DOC, "tenant_id": "globex"}
        requests: list[tuple[str, str, Any]] = [
            ("GET", LIST, {}),
            ("GET", LIST, {"tenant_id": "globex"}),
            *(("GET", path, foreign) for path in (CONTENT, RIGHTS)),
            ("DELETE", CONTENT, foreign),
        ]
        for method, path, query in requests:
            refused = await operator.send(method, path, query, If_Match="*")
            assert outcome(refused) == (403, "FORBIDDEN")
        assert outcome(await operator.put_json(query=foreign)) == (403, "FORBIDDEN")
        assert (await Operator(service, all_tenants).send("GET", LIST, {})).status_code == 200
        refused = await Operator(service, others).send("GET", CONTENT)
        assert outcome(refused) == (403, "FORBIDDEN")
        assert "documents" in refused.json()["error"]["message"]


async def test_no_right_is_granted_without_a_token() -> None:
    async with running() as service:
        for method, path in (("GET", LIST), ("GET", CONTENT), ("DELETE", CONTENT)):
            refused = await service.http.request(method, path, params=DOC)
            assert outcome(refused) == (403, "FORBIDDEN")


async def test_an_unwritable_folder_is_reported(in_folder: Operator) -> None:
    write("documents", "a file in the way")
    refused = await in_folder.put_json()
    assert outcome(refused) == (503, "DOCUMENTS_UNAVAILABLE")
    assert str(Path.cwd()) not in refused.text


async def test_an_unreachable_database_is_503() -> None:
    url = "postgresql://gateway:secret@127.0.0.1:1/documents"
    async with operated(documents_url=url) as operator:
        for refused in (
            await operator.send("GET", LIST, {"tenant_id": "acme"}),
            await operator.send("GET", CONTENT),
            await operator.put_note(),
        ):
            assert outcome(refused) == (503, "DOCUMENTS_UNAVAILABLE")
            assert "secret" not in refused.text


async def test_a_single_document_is_listed_with_its_older_versions(operator: Operator) -> None:
    first = (await operator.put_json()).json()["version"]
    changed = await operator.put_json("Another", **{"If-Match": f'"{first}"'})
    await operator.put_json(query={**DOC, "doc_id": "b"})
    listed = (await operator.send("GET", LIST, DOC)).json()
    assert listed == {"documents": [{**changed.json(), "older_versions": [first]}]}
    none = await operator.send("GET", LIST, {**DOC, "doc_id": "none"})
    assert none.json() == {"documents": []}
    whole = (await operator.send("GET", LIST, {"tenant_id": "acme"})).json()["documents"]
    assert [(it["doc_id"], "older_versions" in it) for it in whole] == [
        (DOC["doc_id"], False),
        ("b", False),
    ]
    without_tenant = await operator.send("GET", LIST, {"doc_id": "b"})
    assert outcome(without_tenant) == (422, "INVALID_REQUEST")
