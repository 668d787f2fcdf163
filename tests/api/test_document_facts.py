"""Own fields, date, expiry and warnings of documents over HTTP, in the folder and PostgreSQL."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.api.document_operator import (
    CONTENT,
    DOC,
    LIST,
    NEW,
    NOTE,
    Operator,
    operated,
    outcome,
    tenant_operators,
)
from tests.support.bounds import BOUND_S
from tests.support.postgres_databases import Databases
from tests.support.service import running
from tests.support.tokens import token_settings

FACTS = "/internal/documents/facts"
OWN = {
    "tags": ["minutes"],
    "date": "2027-01-31",
    "metadata": {"department": "hr", "year": 2027, "by": ["ann", "bob"]},
    "expires_at": "2099-01-31T00:00:00Z",
}


@pytest.fixture(params=["folder", "postgres"])
async def operator(request: pytest.FixtureRequest, databases: Databases) -> AsyncIterator[Operator]:
    settings: dict[str, object] = {}
    if request.param == "postgres":
        settings |= {"documents_url": (await databases.new()).url, "documents_timeout": BOUND_S}
    async with operated(**settings) as made:
        yield made


def own(answer: Any) -> dict[str, Any]:
    return {name: answer[name] for name in OWN if name in answer}


async def test_an_upload_names_its_own_facts(operator: Operator) -> None:
    query = {
        **DOC,
        "tag": "minutes",
        "date": "2027-01-31",
        "metadata": ["department=hr", "year=2027", "by=ann", "by=bob"],
        "expires_at": "2099-01-31T00:00:00Z",
    }
    put = await operator.put_note(query=query)
    assert (put.status_code, own(put.json())) == (201, OWN)
    listed = await operator.send("GET", LIST)
    assert own(listed.json()["documents"][0]) == OWN
    read = await operator.send("GET", CONTENT)
    assert own(read.json()) == OWN


async def test_an_untrusted_document_stays_so_until_its_facts_say_otherwise(
    operator: Operator,
) -> None:
    put = await operator.put_note(query={**DOC, "untrusted": "true"})
    assert put.json()["untrusted"] is True
    for path in (LIST, CONTENT, FACTS):
        answer = (await operator.send("GET", path)).json()
        assert answer.get("documents", [answer])[0]["untrusted"] is True
    again = await operator.put_note("Other text.", if_match=put.headers["etag"])
    assert again.json()["untrusted"] is True
    for facts, expected in (({"tags": ["t"]}, True), ({"untrusted": False}, None)):
        content = json.dumps(facts)
        changed = await operator.send("PUT", FACTS, content=content, if_match="*")
        assert changed.json().get("untrusted") is expected
    for value in ("maybe", "2"):
        refused = await operator.put_note(query={**DOC, "untrusted": value})
        assert outcome(refused) == (422, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("date", "31.1.2027"),
        ("date", "2027-02-31"),
        ("expires_at", "2027-01-31T00:00:00"),
        ("metadata", "no value"),
        ("metadata", f"{'k' * 65}=v"),
    ],
)
async def test_an_invalid_fact_of_an_upload_is_refused(
    operator: Operator, name: str, value: str
) -> None:
    put = await operator.put_note(query={**DOC, name: value})
    assert outcome(put) == (422, "INVALID_REQUEST")
    assert put.json()["error"]["details"]["field"].startswith(name)


async def test_facts_are_replaced_by_the_next_ones(operator: Operator) -> None:
    version = (await operator.put_note(query={**DOC, "tag": "old"})).json()["version"]
    read = await operator.send("GET", FACTS)
    assert own(read.json()) == {"tags": ["old"]}
    etag = read.headers["ETag"]
    put = await operator.service.http.request(
        "PUT", FACTS, params=DOC, json=OWN, headers=operator.headers | {"If-Match": etag}
    )
    assert (put.status_code, own(put.json())) == (200, OWN)
    assert put.json()["version"] != version
    again = await operator.service.http.request(
        "PUT", FACTS, params=DOC, json={}, headers=operator.headers | {"If-Match": etag}
    )
    assert outcome(again) == (412, "VERSION_MISMATCH")
    etag = put.headers["ETag"]
    removed = await operator.service.http.request(
        "PUT", FACTS, params=DOC, json={}, headers=operator.headers | {"If-Match": etag}
    )
    assert own(removed.json()) == {"tags": []}
    listed = (await operator.send("GET", LIST)).json()["documents"][0]
    assert listed["older_versions"] == [put.json()["version"]]


async def test_facts_are_not_changed_without_a_version(operator: Operator) -> None:
    await operator.put_note()
    for headers, expected in (
        ({}, (428, "VERSION_REQUIRED")),
        ({"If-Match": '"other"'}, (412, "VERSION_MISMATCH")),
    ):
        put = await operator.service.http.request(
            "PUT", FACTS, params=DOC, json=OWN, headers=operator.headers | headers
        )
        assert outcome(put) == expected


async def test_operators_of_another_tenant_or_without_the_right_see_and_set_no_facts() -> None:
    async with running(**token_settings()) as service:
        mine, others, no_right = await tenant_operators(service)
        await mine.put_note(query={**DOC, "tag": "old"})
        etag = (await mine.send("GET", FACTS)).headers["ETag"]
        for operator in (others, no_right):
            for method, body in (("GET", None), ("PUT", "{}")):
                answer = await operator.send(method, FACTS, DOC, body, If_Match=etag)
                assert outcome(answer) == (403, "FORBIDDEN")
        elsewhere = await others.send("GET", FACTS, {**DOC, "tenant_id": "globex"})
        assert outcome(elsewhere) == (404, "NOT_FOUND")
        assert own((await mine.send("GET", FACTS)).json()) == {"tags": ["old"]}


async def test_unknown_facts_are_refused(operator: Operator) -> None:
    await operator.put_note()
    put = await operator.service.http.request(
        "PUT", FACTS, params=DOC, json={"expires": "x"}, headers=operator.headers
    )
    assert outcome(put) == (422, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("method", "path", "unknown", "meant"),
    [
        ("PUT", CONTENT, "reader_users", "reader_user"),
        ("PUT", CONTENT, "titel", "title"),
        ("PUT", CONTENT, "encoding", None),
        ("GET", FACTS, "docid", "doc_id"),
        ("DELETE", LIST, "tags", "tag"),
        ("GET", LIST, "tag", None),
    ],
)
async def test_an_unknown_parameter_is_refused(
    operator: Operator, method: str, path: str, unknown: str, meant: str | None
) -> None:
    query = {"tenant_id": DOC["tenant_id"], unknown: "x"}
    if path != LIST:
        query |= DOC
    answer = await operator.send(method, path, query, NOTE if method == "PUT" else None, **NEW)
    assert outcome(answer) == (422, "INVALID_REQUEST")
    error = answer.json()["error"]
    assert error["details"]["field"] == unknown
    assert (f'did you mean "{meant}"' in error["message"]) is (meant is not None)
    assert (await operator.send("GET", LIST)).json()["documents"] == []


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("metadata", "team", "KEY=VALUE"), ("metadata", "=hr", "KEY=VALUE")]
    + [("language", it, "such as de or pt-BR") for it in ("german", "de_DE", "klingon-x", "de\n")],
)
async def test_a_wrong_parameter_says_what_is_expected(
    operator: Operator, name: str, value: str, expected: str
) -> None:
    answer = await operator.send("PUT", CONTENT, {**DOC, name: value}, NOTE, **NEW)
    assert outcome(answer) == (422, "INVALID_REQUEST")
    assert expected in answer.json()["error"]["message"]


async def test_warnings_have_advice_for_the_api(operator: Operator) -> None:
    warning = {"code": "hidden_text", "message": "Three letters of hidden text were left out"}
    more = {"warnings": [warning, {"code": "from a later release", "message": "x"}]}
    put = await operator.put_json(more=more)
    known, unknown = put.json()["warnings"]
    assert {**known, **warning} == known
    assert (known["advice"], "advice" in unknown) == (
        "Check the file: hidden text can contain instructions for models.",
        False,
    )
    listed = await operator.send("GET", LIST)
    assert listed.json()["documents"][0]["warnings"] == put.json()["warnings"]


async def test_an_upload_belongs_to_no_source(operator: Operator) -> None:
    source = {"name": "share", "path": "a.pdf", "digest": "0", "importer": "1"}
    put = await operator.put_json(more={"source": source})
    assert (put.status_code, "source" in put.json()) == (201, False)
