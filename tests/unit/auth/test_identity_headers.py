import pytest

from mcp_tools_proxy.auth.caller_resolver import read_headers
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity
from tests.support.tables import each_row


def test_without_identity_headers_the_assertion_is_empty() -> None:
    authorization, asserted = read_headers([(b"accept", b"*/*")])
    assert (authorization, asserted is NO_ASSERTION) == (None, True)


def test_each_header_sets_one_field_of_the_assertion() -> None:
    headers = [(b"x-tenant-id", b"acme"), (b"x-user-id", b"u"), (b"x-agent-id", b"reader")]
    assert read_headers(headers) == (
        None,
        AssertedIdentity(tenant_id="acme", user_id="u", agent="reader"),
    )


def test_the_authorization_header_is_returned_unchanged() -> None:
    assert read_headers([(b"authorization", b"Bearer \xe4")]) == ("Bearer \xe4", NO_ASSERTION)


def test_a_value_is_decoded_as_utf_8() -> None:
    assert read_headers([(b"x-tenant-id", "ООО".encode())])[1] == AssertedIdentity(tenant_id="ООО")


@each_row(
    ("headers", "field"),
    [
        ([(b"x-tenant-id", b"")], "X-Tenant-Id"),
        ([(b"x-user-id", b"a\x00b")], "X-User-Id"),
        ([(b"x-user-id", "a\x85b".encode())], "X-User-Id"),
        ([(b"x-agent-id", b"x" * 257)], "X-Agent-Id"),
        ([(b"x-tenant-id", b"\xff")], "X-Tenant-Id"),
        ([(b"x-tenant-id", b"\xed\xa0\x80")], "X-Tenant-Id"),
        ([(b"x-user-roles", b",".join([b"r"] * 1_001))], "X-User-Roles"),
        ([(b"x-tenant-id", b"a"), (b"x-tenant-id", b"a")], "X-Tenant-Id"),
        ([(b"authorization", b"a"), (b"authorization", b"b")], "Authorization"),
    ],
)
def test_an_invalid_identifier_is_refused_with_the_name_of_the_header(
    headers: list[tuple[bytes, bytes]], field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_headers(headers)
    assert caught.value.details == {"field": field}
