import pytest

from mcp_tools_proxy.downstream.mcp_client.mcp_connection import first_cause


def test_the_first_exception_of_nested_groups_is_raised() -> None:
    first, second = KeyError("first"), KeyError("second")
    with pytest.raises(KeyError) as caught, first_cause():
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [first]), second])
    assert caught.value is first


def test_an_exception_without_a_group_is_raised_unchanged() -> None:
    with pytest.raises(KeyError), first_cause():
        raise KeyError
