"""How a try ended, and what would become of one, for people."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pydantic_core import from_json

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.schema_forms.visible_json import visible, visible_json
from mcp_tools_proxy.console.tries.advice import advice_on

MAX_SHOWN_CHARS = 12_000
"""Of a text, and of an envelope; the whole is what a program is sent."""
MAX_TEXT_CHARS = 2_000
"""Of one text within an envelope: images are long."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2)
_SHOWN_APART = ("text", "elapsed_ms", "budgets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """A text, cut where it is long; ``length`` is that of the whole."""

    text: str
    length: int

    @property
    def is_cut(self) -> bool:
        """Whether something is left out."""
        return self.length > len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TryOutcome:
    """The end of a call; ``code`` is "OK" or that of an error."""

    code: str
    elapsed_ms: float
    envelope: Extract
    message: str = ""
    advice: str = ""
    retryable: bool = False
    retry_after_s: float | None = None
    text: Extract | None = None
    budgets: Sequence[Mapping[str, Any]] = ()
    argument_names: Sequence[str] = ()
    """The arguments that the error is about."""
    trace_id: str = ""


def outcome_of(body: bytes, elapsed_ms: float) -> TryOutcome:
    """Return the outcome of an answer; ``elapsed_ms`` is the time where it names none."""
    answer = from_json(body)
    error = answer.get("error") or {}
    details = error.get("details") or {}
    names = details.get("arguments") or [details.get("argument")]
    text = answer.get("text")
    return TryOutcome(
        code="OK" if answer["status"] == "ok" else str(error.get("code")),
        elapsed_ms=answer.get("elapsed_ms", elapsed_ms),
        envelope=_envelope(answer, len(body)),
        message=str(error.get("message") or ""),
        advice=advice_on(error.get("code")),
        retryable=error.get("retryable") is True,
        retry_after_s=error.get("retry_after_s"),
        text=None if text is None else _extract(str(text)),
        budgets=answer.get("budgets") or (),
        argument_names=[it for it in names if isinstance(it, str)],
        trace_id=str(answer.get("trace_id") or ""),
    )


def refusal_of(refused: ApiRefused, elapsed_ms: float) -> TryOutcome:
    """Return the outcome of a request that the API refused as a whole."""
    error = {"code": refused.code, "message": refused.message, "details": {**refused.details}}
    return TryOutcome(
        code=refused.code,
        elapsed_ms=elapsed_ms,
        envelope=_extract(visible_json({"status": "error", "error": error})),
        message=refused.message,
        advice=advice_on(refused.code),
        retryable=refused.retryable,
    )


def _envelope(answer: Mapping[str, Any], size: int) -> Extract:
    """Return the envelope as programs get it; a long text in it is cut, and says so.

    No more of it is written than is shown: 4 MB held up every call of the gateway for 2 seconds.
    """
    kept = {key: it for key, it in answer.items() if key not in _SHOWN_APART}
    pieces: list[str] = []
    chars = 0
    for piece in _ENCODER.iterencode(_Beginning().of(kept)):
        pieces.append(piece)
        chars += len(piece)
        if chars > MAX_SHOWN_CHARS:
            break
    text = visible("".join(pieces))[:MAX_SHOWN_CHARS]
    return Extract(text=text, length=max(chars, size) if chars > MAX_SHOWN_CHARS else len(text))


class _Beginning:
    """Copies as much of a value as can be shown, with its long texts cut."""

    def __init__(self) -> None:
        self._left = MAX_SHOWN_CHARS + 1
        """How many values: each takes up a character at least."""

    def of(self, value: object) -> object:
        """Return the copy."""
        self._left -= 1
        match value:
            case str() if len(value) > MAX_TEXT_CHARS:
                return f"{value[:MAX_TEXT_CHARS]}… ({len(value):,} characters)"
            case list():
                return [self.of(it) for it in takewhile(self._is_wanted, value)]
            case dict():
                items = takewhile(self._is_wanted, value.items())
                return {key: self.of(it) for key, it in items}
        return value

    def _is_wanted(self, _: object) -> bool:
        return self._left > 0


def _extract(text: str) -> Extract:
    return Extract(text=text[:MAX_SHOWN_CHARS], length=len(text))
