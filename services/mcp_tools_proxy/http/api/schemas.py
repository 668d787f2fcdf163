"""Puts the schemas of models into the components of the OpenAPI document, each under its title.

A generator of clients names a class after a component, and invents a name for any other object.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, GetCoreSchemaHandler, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, WithJsonSchema
from pydantic_core import core_schema

from mcp_tools_proxy.http.fast_routes import Components

JsonSchema = dict[str, object]

Mode = Literal["validation", "serialization"]
"""Whether a schema is of what is received or of what is sent: an answer has no null."""

_NULL = {"type": "null"}


def open_names(title: str, description: str, names: Sequence[str]) -> WithJsonSchema:
    """Return the schema of a text that is one of ``names`` today, and may be another one later.

    A client that knows a closed list fails when a later gateway sends a name that is new.
    """
    known = {"title": title, "type": "string", "enum": [*names], "description": description}
    return _OpenNames({"anyOf": [known, {"type": "string"}]})


class _OpenNames(WithJsonSchema):
    """The schema of a text; a field that has it takes a member of an enum for its value."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Return a schema that validates the value of a member, as pydantic asks for it."""
        return core_schema.no_info_before_validator_function(_value_of, handler(source))


def _value_of(name: object) -> object:
    return name.value if isinstance(name, Enum) else name


def add_schema(components: Components, model: Any, mode: Mode) -> JsonSchema:
    """Add the schema of ``model``, and each part of it that has a title; return what refers to it.

    Raises ValueError if two different schemas have the same title.
    """
    generated, sharing = _generate(components, model, mode)
    return sharing.shared_object(generated)


def property_schemas(components: Components, model: type[BaseModel]) -> dict[str, JsonSchema]:
    """Return the schema of each field of a query, which has no null; share what has a title."""
    generated, sharing = _generate(components, model, "validation")
    return {
        name: sharing.shared_object(_without_null(_without_null_default(schema)))
        for name, schema in generated["properties"].items()
    }


def _generate(components: Components, model: Any, mode: Mode) -> tuple[dict[str, Any], "_Sharing"]:
    generated = TypeAdapter(model).json_schema(mode=mode, schema_generator=_UntitledFields)
    definitions = generated.pop("$defs", {})
    return generated, _Sharing(components.setdefault("schemas", {}), definitions, mode)


class _UntitledFields(GenerateJsonSchema):
    """Generates schemas in which only models have a title, and what was given one."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Return False: "Tool Name" says no more than ``tool_name``."""
        return False


class _Sharing:
    """Moves what has a title to ``shared``; our models are not recursive."""

    def __init__(
        self,
        schemas: dict[str, object],
        definitions: Mapping[str, Mapping[str, object]],
        mode: Mode,
    ) -> None:
        self._schemas = schemas
        self._definitions = definitions
        self._mode = mode

    def shared(self, schema: object) -> object:
        """Return ``schema`` with a reference in place of each part that has a title."""
        if isinstance(schema, list):
            return [self.shared(item) for item in schema]
        return self.shared_object(schema) if isinstance(schema, dict) else schema

    def shared_object(self, schema: Mapping[str, object]) -> JsonSchema:
        """Return ``schema``, which is an object, as ``shared`` does."""
        parts = {key: self._part(key, value) for key, value in schema.items()}
        title = parts.get("title")
        return self._add(title, parts) if isinstance(title, str) else parts

    def _part(self, key: str, value: object) -> object:
        match key, value:
            case "$ref", str():
                return self._target(value)
            case "properties", dict():
                return {name: self.shared_object(self._field(it)) for name, it in value.items()}
            case "mapping", dict():  # of a discriminator: the references are plain texts
                return {name: self._target(it) for name, it in value.items()}
            case "description", str():
                return value.replace("``", "`")
        return self.shared(value)

    def _field(self, field: Mapping[str, object]) -> Mapping[str, object]:
        described = _without_null_default(field)
        return _without_null(described) if self._mode == "serialization" else described

    def _target(self, reference: str) -> object:
        """Return where the definition is that ``reference`` names, which has a title."""
        return self.shared_object(self._definitions[reference.rpartition("/")[2]])["$ref"]

    def _add(self, title: str, schema: dict[str, object]) -> dict[str, object]:
        if self._schemas.setdefault(title, schema) != schema:
            raise ValueError(f"two different schemas have the title {title}")
        return {"$ref": f"#/components/schemas/{title}"}


def _without_null(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Convert "T or null" to T."""
    match schema:
        case {"anyOf": [dict() as only, {"type": "null"}], **others}:
            return {**only, **others}
        case {"anyOf": list(alternatives), **others} if _NULL in alternatives:
            return {"anyOf": [it for it in alternatives if it != _NULL], **others}
    return schema


def _without_null_default(field: Mapping[str, object]) -> Mapping[str, object]:
    return {key: value for key, value in field.items() if (key, value) != ("default", None)}
