import pytest

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client.messages import MIN_STRUCTURE_BYTES as LIMIT
from mcp_tools_proxy.downstream.mcp_client.messages import read_object


def test_a_number_beyond_a_float_is_read_as_null() -> None:
    assert read_object(b'{"a": [1e400, -1e999, 1e5]}', LIMIT) == {"a": [None, None, 1e5]}


@pytest.mark.parametrize("data", [b'{"a": NaN}', b'{"a": Infinity}', b"[1e400]", b"1e400"])
def test_what_is_no_json_object_is_a_fault(data: bytes) -> None:
    with pytest.raises(ConnectionFailure):
        read_object(data, LIMIT)
