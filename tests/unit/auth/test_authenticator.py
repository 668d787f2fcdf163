from mcp_tools_proxy.auth.authenticator import bearer_token
from tests.support.tables import each_row


@each_row("header", ["Bearer good", "bearer good", "BEARER  good "])
def test_the_bearer_scheme_is_case_insensitive(header: str) -> None:
    assert bearer_token(header) == "good"


@each_row(
    "header", [None, "", "good", "Basic good", "Digest good", "Bearer", "Bearer  ", "Bearergood"]
)
def test_a_token_of_another_scheme_is_ignored(header: str | None) -> None:
    assert bearer_token(header) is None
