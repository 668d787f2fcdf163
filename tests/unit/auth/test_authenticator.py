"""The token of an ``Authorization`` header."""

from mcp_tools_proxy.auth.authenticator import bearer_token
from tests.support.tables import each_row


@each_row("header", ["Bearer good", "bearer good", "BEARER  good "])
def test_the_scheme_is_bearer_in_any_case(header: str) -> None:
    assert bearer_token(header) == "good"


@each_row(
    "header", [None, "", "good", "Basic good", "Digest good", "Bearer", "Bearer  ", "Bearergood"]
)
def test_another_scheme_has_no_token(header: str | None) -> None:
    assert bearer_token(header) is None
