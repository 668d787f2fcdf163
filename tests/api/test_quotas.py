"""Quotas per tenant over HTTP: 409 with the limit; the operator's commands are exempt."""

import asyncio
import json
from typing import Any

from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import Principal
from tests.api.document_operator import DOC, NEW, operated, outcome
from tests.api.token_operator import create, revoke, serving
from tests.support.tokens import TOKENS_FILE

SMILE = "\N{GRINNING FACE}"


async def test_a_tenant_cannot_create_more_tokens_than_its_quota() -> None:
    async with serving(quota_tokens=3) as service:
        wanted = [create(service, tenant_id="tenant_1") for _ in range(8)]
        answers = await asyncio.gather(*wanted)
        refused = [it for it in answers if it.status_code != 200]
        made = [it for it in answers if it.status_code == 200]
        assert (len(made), len(refused)) == (3, 5)
        assert outcome(refused[0]) == (409, "QUOTA_EXCEEDED")
        error = refused[0].json()["error"]
        assert error["details"] == {"quota": "tokens", "unit": "count", "limit": 3, "used": 3}
        assert "limit of 3" in error["message"]
        assert (await create(service, tenant_id="tenant_2")).status_code == 200
        assert (await create(service, rights=["audit"])).status_code == 200  # without a tenant
        add_token(TOKENS_FILE, Principal(tenant_id="tenant_1"))  # like the command
        await revoke(service, made[0].json()["id"])
        assert outcome(await create(service, tenant_id="tenant_1")) == (409, "QUOTA_EXCEEDED")
        await revoke(service, made[1].json()["id"])
        assert (await create(service, tenant_id="tenant_1")).status_code == 200


async def test_the_total_size_of_a_tenants_tokens_is_limited() -> None:
    async with serving(quota_token_bytes=100_000) as service:
        documents = [f"{number:03}" + SMILE * 60 for number in range(150)]
        answers = [
            await create(service, tenant_id="tenant_1", documents=documents) for _ in range(4)
        ]
        assert [it.status_code for it in answers] == [200, 200, 409, 409]
        assert answers[2].json()["error"]["details"]["unit"] == "bytes"
        assert len(TOKENS_FILE.read_bytes()) < 100_000


async def test_the_size_of_one_tokens_fields_is_limited() -> None:
    async with serving() as service:
        many = [f"{number:03}" + SMILE * 250 for number in range(1000)]
        for fields in ({"documents": many}, {"agents": many}):
            wanted: dict[str, Any] = {"tenant_id": "tenant_1", **fields}
            answer = await create(service, **wanted)
            assert outcome(answer) == (422, "INVALID_REQUEST")
            assert answer.json()["error"]["details"] == {"max_token_bytes": 65_536}
        roles = await create(service, tenant_id="tenant_1", roles=many[:100])
        assert outcome(roles) == (422, "INVALID_REQUEST")
        assert not TOKENS_FILE.exists() or TOKENS_FILE.read_bytes() == b""


async def test_a_quota_of_zero_is_off() -> None:
    async with serving(quota_tokens=0, quota_token_bytes=0) as service:
        documents = [f"{number:03}" + SMILE * 60 for number in range(200)]
        answers = [
            await create(service, tenant_id="tenant_1", documents=documents) for _ in range(22)
        ]
        assert {it.status_code for it in answers} == {200}


async def test_parallel_uploads_respect_the_quota() -> None:
    async with operated(quota_documents=2) as operator:
        uploads = []
        for number in range(6):
            key = {"tenant_id": "acme", "doc_id": f"d{number}"}
            uploads.append(operator.put_json("one", key))
        answers = await asyncio.gather(*uploads)
        assert sorted(it.status_code for it in answers) == [201, 201, 409, 409, 409, 409]
        refused = next(it for it in answers if it.status_code == 409)
        assert outcome(refused) == (409, "QUOTA_EXCEEDED")
        details = refused.json()["error"]["details"]
        assert details == {"quota": "documents", "unit": "count", "limit": 2, "used": 2}
        other = await operator.put_json(query={"tenant_id": "globex", "doc_id": "d"})
        assert other.status_code == 201


async def test_a_replacement_counts_only_the_difference() -> None:
    async with operated(quota_documents=1, quota_document_bytes=10_000) as operator:
        first = await operator.put_json("x " * 3_000)
        assert first.status_code == 201
        same = await operator.put_json("y " * 3_000, If_Match=first.headers["etag"])
        assert same.status_code == 200
        more = await operator.put_json("z " * 6_000, If_Match=same.headers["etag"])
        assert outcome(more) == (409, "QUOTA_EXCEEDED")
        assert more.json()["error"]["details"]["unit"] == "bytes"


async def test_tags_and_readers_of_an_upload_are_limited() -> None:
    content = {**DOC, "title": "T", "pages": ["one"]}
    many = [f"item {number:07}" for number in range(50_000)]
    async with operated() as operator:
        for facts in (
            {"tags": many},
            {"readers": {"users": many, "roles": []}},
            {"title": "x" * 100_000},
            {"pages": ["x"] * 20_000, "ocr": [99] * 20_000, "tags": many[:1000]},
        ):
            body = json.dumps(content | facts).encode()
            answer = await operator.put_note(body, Content_Type="application/json", **NEW)
            assert outcome(answer) == (422, "INVALID_REQUEST")
            assert "limit is 65536" in answer.json()["error"]["message"]
