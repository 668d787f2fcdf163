"""The calls in a model's reply, and their arguments, parsed by the rules for request bodies."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic_core import from_json

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import InvalidArguments, InvalidRequest
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.identifiers import IDEMPOTENCY_KEY_RULE, is_idempotency_key
from mcp_tools_proxy.wire.problem_texts import place_of
from mcp_tools_proxy.wire.strict_json import (
    MAX_DEPTH,
    MAX_KEYS_SEARCHED,
    RepeatedKey,
    check_keys,
    count_items,
    may_overflow,
    parse_strict,
)

_KEY = "idempotency_key"

Item = Mapping[str, object]
CALL_ID_PATTERN = r"^[!-~]{1,16384}$"
"""Long, because some proxies put a model's signature of several kB into the id."""

_CALL_ID = re.compile(CALL_ID_PATTERN.strip("^$"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call in a model's reply; its result must name ``call_id``.

    ``arguments`` are unparsed; ``refusal`` is an error independent of them. A call that
    ``is_run_elsewhere`` belongs to the provider or a program of the caller, and gets no message.
    ``item`` includes properties added by the caller.
    """

    call_id: str
    name: str
    item: Item
    arguments: object = None
    refusal: InvalidArguments | None = None
    is_run_elsewhere: bool = False

    @property
    def idempotency_key(self) -> str | None:
        """The key that the caller added to the item, validated by ``check_idempotency_key``."""
        return cast("str | None", self.item.get(_KEY))


def check_idempotency_key(item: Item, place: int) -> None:
    """Raise InvalidRequest if the item has an invalid idempotency key."""
    key = item.get(_KEY)
    if key is not None and not (isinstance(key, str) and is_idempotency_key(key)):
        raise invalid_item(place, f".{_KEY}", IDEMPOTENCY_KEY_RULE)


def read_call_id(item: Item, key: str, place: int, path: str = "") -> str:
    """Return the id that the result must name. Raises InvalidRequest."""
    value = item.get(key)
    if isinstance(value, str) and _CALL_ID.fullmatch(value):
        return value
    problem = "is missing" if value is None else "should be 1 to 16384 printable ASCII characters"
    raise invalid_item(place, f".{path}{key}", problem)


def read_name(holder: Item, place: int, path: str = "") -> str:
    """Return the tool's name as the model wrote it. Raises InvalidRequest."""
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
    """Build the error for an unreadable reply; ``path`` is within the item."""
    field = f"calls.{place}{path}"
    return InvalidRequest(f"{field}: {problem}", details={"field": field})


def no_function_call(item: Item, call_id: str, name: str) -> ModelCall:
    """Build the refused call, without arguments, of a tool other than a function."""
    problem = (
        "this is not a function call, and only functions are run here; offer the tool to the model "
        "as a function"
    )
    return ModelCall(call_id=call_id, name=name, item=item, refusal=InvalidArguments(problem))


def call_run_elsewhere(item: Item) -> ModelCall:
    """Build the call of a tool that the provider or a program of the caller runs."""
    name = item.get("name")
    shown = name if isinstance(name, str) else str(item["type"])
    return ModelCall(call_id="", name=shown, item=item, is_run_elsewhere=True)


ReadArguments = JsonObject | InvalidArguments
"""The arguments of one call, or the error of reading them."""


def read_arguments(sent: Sequence[object], *, max_items: int) -> Sequence[ReadArguments]:
    """Read the arguments of each call: a text of JSON or an object.

    None, blank texts and "null", which models send to tools without arguments, give an empty
    object. All texts together contain at most ``max_items`` values.
    """
    sent = [None if isinstance(it, str) and _is_empty(it) else it for it in sent]
    texts = [it.encode() for it in sent if isinstance(it, str)]
    parsed = iter(texts and (_parse_at_once(texts, max_items) or _parse_each(texts, max_items)))
    return [
        {} if one is None else _object(next(parsed) if isinstance(one, str) else one)
        for one in sent
    ]


def _is_empty(text: str) -> bool:
    return text[:1] != "{" and (not text.strip() or text.strip() == "null")


def _parse_at_once(texts: Sequence[bytes], max_items: int) -> Sequence[object] | None:
    """Parse short and plain texts, checked together: eight take half as long as one by one.

    Returns None if a text violates a rule, or can do so.
    """
    joined = b",".join(texts)
    brackets = joined.count(b"[") + joined.count(b"{")
    if len(joined) >= max_items or brackets > MAX_DEPTH or may_overflow(joined):
        return None
    try:
        values = [from_json(text, allow_inf_nan=False, cache_strings="keys") for text in texts]
        check_keys(joined, values, max_searched=0)
    except ValueError:
        return None
    return values


def _parse_each(texts: Sequence[bytes], max_items: int) -> Sequence[object]:
    """Parse the texts one by one; an invalid one becomes an InvalidArguments.

    Repeated keys are searched among MAX_KEYS_SEARCHED keys of all texts together.
    """
    parsed: list[object] = []
    left, keys_left = max_items, MAX_KEYS_SEARCHED
    for text in texts:
        # the only text is counted by parse_strict: with 80,000 keys a second count takes 10 ms
        count = 0 if len(texts) == 1 else count_items(text)
        if count > left:
            limit = f"{max_items} JSON values, the limit for one reply"
            parsed.append(
                InvalidArguments(
                    f"arguments: together with those of earlier calls have more than {limit}; "
                    "make fewer calls at once"
                )
            )
            continue
        left -= count
        try:
            parsed.append(parse_strict(text, max_items=max_items, max_searched=keys_left))
        except ValueError as error:
            if isinstance(error, RepeatedKey) and error.place:
                keys_left -= text.count(b":")
            parsed.append(_refusal(error))
    return parsed


def _object(value: object) -> ReadArguments:
    if isinstance(value, dict | InvalidArguments):
        return value
    return InvalidArguments("arguments: should be a JSON object")


def _refusal(error: ValueError) -> InvalidArguments:
    if not isinstance(error, RepeatedKey) or not error.place:
        return InvalidArguments(f"arguments: {error}")
    place = place_of({"loc": error.place}, whole="arguments")
    return InvalidArguments(
        f"{place}: the same object has this key twice; keep one of them",
        details={"arguments": [place.partition(".")[0]]},
    )
