"""Every answer to what schemathesis makes of the document; run by test_openapi.py.

Its pytest plugin is loaded for this module alone: it looks at the whole chain of each failure in
each test, and once ended a run after 3,087 tests when a time-out struck it there.
"""

from typing import Any

import schemathesis
from schemathesis.checks import (
    negative_data_rejection,
    not_a_server_error,
    positive_data_acceptance,
)

from tests.api.openapi_schema import quietly, schema

CALLER = {"user", "user.user_id", "user.tenant_id"}
LIMITED_BY_SETTINGS = {"calls"}
"""A batch takes ``max_batch_calls``, which the document does not know."""


def beyond_openapi(case: schemathesis.Case[Any], response: Any) -> list[Any]:
    """Return the checks of what the document cannot say: who calls, and what settings limit."""
    checks: list[Any] = []
    if response.status_code == 422 and response.json()["error"]["details"]["field"] in (
        CALLER | LIMITED_BY_SETTINGS
    ):
        checks.append(positive_data_acceptance)
    if not all(str(value).isascii() for value in (case.headers or {}).values()):
        checks.append(negative_data_rejection)  # it may be UTF-8 by chance
    return checks


@schema.parametrize()
@quietly
def test_every_answer_is_described(case: schemathesis.Case[Any]) -> None:
    response = case.call()
    if response.status_code == 503:
        assert response.json().get("error", {}).get("code", "not ready") in {
            "RETRIEVAL_NOT_CONFIGURED",
            "not ready",
        }
        case.validate_response(response, excluded_checks=[not_a_server_error])
    else:
        case.validate_response(response, excluded_checks=beyond_openapi(case, response))
