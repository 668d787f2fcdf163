"""Tells whether the texts of a result already hold its structured content."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json, to_json

from mcp_tools_proxy.wire.content_blocks import CUT

_UNREADABLE: Any = object()


def holds_structured(texts: Sequence[str], structured: object) -> bool:
    """Return whether a model that reads ``texts`` knows ``structured``.

    So it is where a text is its JSON, however it is spaced, or the beginning of it up to a cut. An
    object of one property is known where that property's value is: SDKs put the value of a function
    that returns no object under ``result``, and show it alone, a list as one text for each item.
    """
    values = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        values += structured.values()
    if any(_is_shown(text, value) for value in values for text in texts):
        return True
    items = values[-1]
    return (
        isinstance(items, list)
        and len(items) == len(texts)
        and all(_is_shown(text, item) for text, item in zip(texts, items, strict=True))
    )


def _is_shown(text: str, value: object) -> bool:
    if isinstance(value, str):
        return text.strip() == value.strip()
    if text.endswith(CUT):
        begun = _unspaced(text.removesuffix(CUT))
        forms = (to_json(value).decode(), json.dumps(value))
        return any(_unspaced(form).startswith(begun) for form in forms)
    return bool(_parsed(text) == value)


def _parsed(text: str) -> object:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return _UNREADABLE


def _unspaced(text: str) -> str:
    return "".join(text.split())
