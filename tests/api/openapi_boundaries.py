"""Responses to the boundary values of each parameter; test_openapi.py runs this as a program.

Only this module loads schemathesis' pytest plugin, which inspects the whole exception chain of each
failure in every test and once ended a run after 3,087 tests when a timeout interrupted it. PART
selects some of the operations, because all of them exceed the time limit of one test."""

import os
from typing import Any

import schemathesis

from tests.api.described_answers import check_answer, quietly, schema

PART, PARTS = (int(it) for it in os.environ.get("PART", "0/1").split("/"))  # noqa: TID251 - of test_openapi.py

schema.config.phases.coverage.enabled = True  # a few hundred cases, the same in each run

_NUMBERS: dict[str, int] = {}


def is_in_part(operation: str) -> bool:
    return _NUMBERS.setdefault(operation, len(_NUMBERS)) % PARTS == PART


@schema.include(func=lambda it: is_in_part(it.operation.label)).parametrize()
@quietly
def test_every_answer_is_described(case: schemathesis.Case[Any]) -> None:
    check_answer(case)
