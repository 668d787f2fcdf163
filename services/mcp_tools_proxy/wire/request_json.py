"""A request's JSON, and what is wrong with it in the words of INVALID_REQUEST (contract §1)."""

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.wire.problem_texts import place_of
from mcp_tools_proxy.wire.strict_json import RepeatedKey, TooManyItems, parse_strict

BODY = "body"
"""What is named as the field of a request when its body is not JSON as it should be."""


def parse_request(data: bytes, *, max_items: int) -> object:
    """Parse a request as strict JSON; see ``parse_strict``. Raises InvalidRequest."""
    try:
        return parse_strict(data, max_items=max_items)
    except RepeatedKey as error:
        raise repeated_key(error) from None
    except TooManyItems as error:
        details = {"field": BODY, "max_json_items": max_items}
        raise InvalidRequest(f"the body {error}", details=details) from None
    except ValueError as error:
        raise InvalidRequest(f"the body {error}", details={"field": BODY}) from None


def repeated_key(error: RepeatedKey) -> InvalidRequest:
    """Say where a key is that was named before in the same object."""
    field = place_of({"loc": error.place}, whole=BODY)
    what = (
        f"{field}: this object names the key"
        if error.place
        else "an object in the body names a key"
    )
    return InvalidRequest(f"{what} twice; keep one of them", details={"field": field})
