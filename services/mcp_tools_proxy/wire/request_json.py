"""Parses the JSON of a request; errors become INVALID_REQUEST (contract §1)."""

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.wire.problem_texts import place_of
from mcp_tools_proxy.wire.strict_json import RepeatedKey, TooManyItems, parse_strict

BODY = "body"
"""``details.field`` of an error that concerns the body as a whole."""


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
    """Build the error for a key that occurs twice in one object, with its place."""
    field = place_of({"loc": error.place}, whole=BODY)
    what = (
        f"{field}: the same object has this key"
        if error.place
        else "an object in the body has the same key"
    )
    return InvalidRequest(f"{what} twice; keep one of them", details={"field": field})
