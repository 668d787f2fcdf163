"""The four model APIs as used by a runtime: items of a reply, and appended messages."""

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter

Json = dict[str, Any]

STRICT = ConfigDict(extra="forbid", strict=True)
"""Types of the vendors' packages allow unknown keys; these tests do not."""


@dataclass(frozen=True, kw_only=True)
class ModelApi:
    """One API: the module of its types and its names."""

    name: str
    module: str
    type_name: str
    """The type of one appended message."""
    id_field: str
    name_field: str = "name"
    ids_identify: bool = True

    def item(self, call_id: object, name: object, arguments: object) -> Json:
        match self.name:
            case "chat":
                function = {"name": name, "arguments": _text(arguments)}
                return {"id": call_id, "type": "function", "function": function}
            case "responses":
                return {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": call_id,
                    "name": name,
                    "arguments": _text(arguments),
                    "status": "completed",
                }
            case "gemini":
                return {"functionCall": {"id": call_id, "name": name, "args": arguments}}
            case _:
                return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}

    def results(self, messages: Sequence[Json]) -> list[tuple[str, Any]]:
        match self.name:
            case "chat":
                return [(it["tool_call_id"], it["content"]) for it in messages]
            case "responses":
                return [(it["call_id"], it["output"]) for it in messages]
        assert len(messages) <= 1
        if self.name == "gemini":
            parts = [it["functionResponse"] for one in messages for it in one["parts"]]
            return [(it.get("id", ""), *it["response"].values()) for it in parts]
        return [(it["tool_use_id"], it["content"]) for one in messages for it in one["content"]]

    def validated(self, messages: Sequence[Json]) -> list[Json]:
        """Return the messages validated by the vendor's types, without unknown keys."""
        return [listed(it) for it in _adapter(self).validate_python(messages)]


@cache
def _adapter(api: ModelApi) -> TypeAdapter[Any]:
    """Build a validator: 0.1 s of CPU for the largest of the unions."""
    vendor = getattr(importlib.import_module(api.module), api.type_name)
    config = None if api.name == "gemini" else STRICT  # these types have separate settings
    return TypeAdapter(list[vendor], config=config)  # type: ignore[valid-type]


def _text(arguments: object) -> object:
    return json.dumps(arguments) if isinstance(arguments, Mapping) else arguments


def listed(value: Any) -> Any:
    """Return the value with lists in place of pydantic's iterators, which validate when read."""
    if isinstance(value, Mapping):
        return {key: listed(item) for key, item in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    return [listed(item) for item in value]


CHAT = ModelApi(
    name="chat",
    module="openai.types.chat",
    type_name="ChatCompletionToolMessageParam",
    id_field="id",
    name_field="function.name",
    ids_identify=False,
)
RESPONSES = ModelApi(
    name="responses",
    module="openai.types.responses.response_input_item_param",
    type_name="ResponseInputItemParam",
    id_field="call_id",
)
ANTHROPIC = ModelApi(
    name="anthropic", module="anthropic.types", type_name="MessageParam", id_field="id"
)
GEMINI = ModelApi(
    name="gemini",
    module="tests.support.gemini_types",
    type_name="Content",
    id_field="functionCall.id",
    name_field="functionCall.name",
    ids_identify=False,
)
APIS = (CHAT, RESPONSES, ANTHROPIC, GEMINI)
