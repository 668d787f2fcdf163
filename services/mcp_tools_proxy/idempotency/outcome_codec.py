"""Outcomes as bytes, to be kept under an idempotency key."""

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import OutcomeUnknown, ProxyError, error_from_json
from mcp_tools_proxy.domain.outcome import Failed, Ok, Outcome

_OK, _INPUT_REQUIRED, _FAILED = b"+", b"?", b"-"


def encode_result(outcome: Ok) -> bytes:
    """Return a result as bytes."""
    return (_INPUT_REQUIRED if outcome.input_required else _OK) + outcome.result_json


def encode_error(error: ProxyError) -> bytes:
    """Return an error as bytes: all that a caller sees of it."""
    return _FAILED + to_json(error.as_json)


def decode_outcome(kept: bytes, spec: ComponentSpec) -> Outcome:
    """Return the outcome that was kept, as a replayed one, which costs no tokens.

    Raises OutcomeUnknown for one that a newer version of the gateway has kept.
    """
    kind, content = kept[:1], kept[1:]
    if kind in (_OK, _INPUT_REQUIRED):
        return Ok(
            spec=spec,
            result=from_json(content),
            result_json=content,
            tokens=0,
            input_required=kind == _INPUT_REQUIRED,
            replayed=True,
        )
    error = error_from_json(from_json(content)) if kind == _FAILED else None
    if error is None:
        raise OutcomeUnknown(
            "this call was made before, by a newer version of this gateway whose record cannot be "
            "read here; send it again with the same key once all replicas are upgraded"
        )
    return Failed(error=error, replayed=True, spec=spec)
