"""Parses the texts of arguments in one reply, by the rules of a request's body."""

from collections.abc import Sequence

from pydantic_core import from_json

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import InvalidArguments
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

ReadArguments = JsonObject | InvalidArguments
"""The arguments of one call, or why they cannot be read."""


def read_arguments(sent: Sequence[object], *, max_items: int) -> Sequence[ReadArguments]:
    """Read the arguments of each call: a text of JSON or an object.

    None, a blank text and "null", which models send to tools without arguments, are an empty one.

    All texts together hold at most ``max_items`` values.
    """
    sent = [None if isinstance(it, str) and _is_empty(it) else it for it in sent]
    texts = [it.encode() for it in sent if isinstance(it, str)]
    parsed = iter(texts and (_parse_at_once(texts, max_items) or _parse_each(texts, max_items)))
    return [
        {} if one is None else _object(next(parsed) if isinstance(one, str) else one)
        for one in sent
    ]


def _is_empty(text: str) -> bool:
    """Return whether a text is blank or ``null``; looks at the first characters of a long one."""
    return text[:1] != "{" and (not text.strip() or text.strip() == "null")


def _parse_at_once(texts: Sequence[bytes], max_items: int) -> Sequence[object] | None:
    """Parse short and plain texts, checked together: eight take half as long as one by one.

    Returns None where a text breaks a rule, or may break one.
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
    """Parse the texts one by one; a broken one is an InvalidArguments.

    A repeated key is searched among MAX_KEYS_SEARCHED keys of all texts together.
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
