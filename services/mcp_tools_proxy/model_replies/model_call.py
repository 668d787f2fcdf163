"""One call in a model's reply, and how its fields are read."""

import re
from collections.abc import Mapping
from typing import cast

from mcp_tools_proxy.domain.errors import InvalidArguments, InvalidRequest
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.identifiers import IDEMPOTENCY_KEY_RULE, is_idempotency_key

_KEY = "idempotency_key"

Item = Mapping[str, object]
"""One item of a reply, as the model's API sent it."""

CALL_ID_PATTERN = r"^[!-~]{1,16384}$"
"""Some proxies put a model's signature of several kB into the id, so it may be long."""

_CALL_ID = re.compile(CALL_ID_PATTERN.strip("^$"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call in a model's reply; its result has to name ``call_id``.

    ``arguments`` are as they were sent; ``refusal`` is why the call cannot be run whatever they
    are. A call that ``is_run_elsewhere`` belongs to the model's provider or to a program of the
    caller's: no message is built for it. ``item`` is the whole item, where properties that a
    caller adds can be read.
    """

    call_id: str
    name: str
    item: Item
    arguments: object = None
    refusal: InvalidArguments | None = None
    is_run_elsewhere: bool = False

    @property
    def idempotency_key(self) -> str | None:
        """The key that the caller has added to the item; ``check_idempotency_key`` checked it."""
        return cast("str | None", self.item.get(_KEY))


def check_idempotency_key(item: Item, place: int) -> None:
    """Raise InvalidRequest if the item has an idempotency key that is none."""
    key = item.get(_KEY)
    if key is not None and not (isinstance(key, str) and is_idempotency_key(key)):
        raise invalid_item(place, f".{_KEY}", IDEMPOTENCY_KEY_RULE)


def read_call_id(item: Item, key: str, place: int, path: str = "") -> str:
    """Return the id that the result has to name. Raises InvalidRequest."""
    value = item.get(key)
    if isinstance(value, str) and _CALL_ID.fullmatch(value):
        return value
    problem = "is missing" if value is None else "should be 1 to 16384 printable ASCII characters"
    raise invalid_item(place, f".{path}{key}", problem)


def read_name(holder: Item, place: int, path: str = "") -> str:
    """Return the tool's name as the model spelled it. Raises InvalidRequest."""
    value = holder.get("name")
    if isinstance(value, str):
        return value
    problem = "is missing" if value is None else "should be a string"
    raise invalid_item(place, f".{path}name", problem)


def read_object(item: Item, key: str, place: int) -> Item:
    """Return the object at ``key``. Raises InvalidRequest."""
    value = item.get(key)
    if isinstance(value, dict):
        return value
    problem = "is missing" if value is None else "should be a JSON object"
    raise invalid_item(place, f".{key}", problem)


def invalid_item(place: int, path: str, problem: str) -> InvalidRequest:
    """Build the error for a reply that cannot be read; ``path`` is within the item."""
    field = f"calls.{place}{path}"
    return InvalidRequest(f"{field}: {problem}", details={"field": field})


def no_function_call(item: Item, call_id: str, name: str) -> ModelCall:
    """Build the call of a tool that is no function, which is refused: it has no arguments."""
    problem = (
        "this is not a function call, and only functions are run here; offer the tool to the model "
        "as a function"
    )
    return ModelCall(call_id=call_id, name=name, item=item, refusal=InvalidArguments(problem))


def call_run_elsewhere(item: Item) -> ModelCall:
    """Build the call of a tool that the provider runs, or a program of the caller's own."""
    name = item.get("name")
    shown = name if isinstance(name, str) else str(item["type"])
    return ModelCall(call_id="", name=shown, item=item, is_run_elsewhere=True)
