"""Batches of a model's calls, for the tests of replies and their arguments."""

import pytest

from tests.support.model_apis import APIS
from tests.support.service import BATCH, Envelope, Service

USER = {"user_id": "user_1", "tenant_id": "tenant_1"}
DOC = {"doc_id": "doc_1"}
METADATA = "read_doc_metadata"
CALL_OF = {api: api.item("call_1", METADATA, DOC) for api in APIS}

apis = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


async def batch(service: Service, calls: object, **top_level: object) -> Envelope:
    response = await service.http.post(BATCH, json={"calls": calls, "user": USER, **top_level})
    answer: Envelope = response.json()
    return answer


def codes(answer: Envelope) -> list[str]:
    return [result.get("error", {}).get("code", "OK") for result in answer["results"]]


def field(answer: Envelope) -> str:
    assert answer["error"]["code"] == "INVALID_REQUEST", answer
    found: str = answer["error"]["details"]["field"]
    return found
