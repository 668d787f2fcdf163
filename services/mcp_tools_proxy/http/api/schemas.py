"""Puts schemas of models into the components of the OpenAPI document, each under its title.

Client generators name classes after components, and invent names for other objects.
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
"""Whether a schema is for received or sent data; answers contain no null."""

_NULL = {"type": "null"}


def open_names(title: str, description: str, names: Sequence[str]) -> WithJsonSchema:
    """Return the schema of a text that is one of ``names`` today, with others possible later.

    A client with a closed list fails when a later gateway sends a new name.
    """
    known = {"title": title, "type": "string", "enum": [*names], "description": description}
    return _OpenNames({"anyOf": [known, {"type": "string"}]})


class _OpenNames(WithJsonSchema):
    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Return a schema that validates the value of a member, as pydantic requires."""
        return core_schema.no_info_before_validator_function(_value_of, handler(source))


def _value_of(name: object) -> object:
    return name.value if isinstance(name, Enum) else name


def add_schema(components: Components, model: Any, mode: Mode) -> JsonSchema:
    """Add the schema of ``model``, and each titled part; return a reference to it.

    Raises ValueError if two different schemas have the same title.
    """
    generated, sharing = _generate(components, model, mode)
    return sharing.shared_object(generated)


def property_schemas(components: Components, model: type[BaseModel]) -> dict[str, JsonSchema]:
    """Return the schema of each field of a query, without null; share titled parts."""
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
    """Generates schemas without titles for fields."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Return False: "Tool Name" adds nothing to ``tool_name``."""
        return False


class _Sharing:
    """Moves titled parts to ``shared``; our models are not recursive."""

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
        """Return ``schema`` with references in place of titled parts."""
        if isinstance(schema, list):
            return [self.shared(item) for item in schema]
        return self.shared_object(schema) if isinstance(schema, dict) else schema

    def shared_object(self, schema: Mapping[str, object]) -> JsonSchema:
        """Return ``schema``, an object, as ``shared`` does."""
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
        """Return the reference to the titled definition that ``reference`` names."""
        return self.shared_object(self._definitions[reference.rpartition("/")[2]])["$ref"]

    def _add(self, title: str, schema: dict[str, object]) -> dict[str, object]:
        if self._schemas.setdefault(title, schema) != schema:
            raise ValueError(f"two different schemas have the title {title}")
        return {"$ref": f"#/components/schemas/{title}"}


def _without_null(schema: Mapping[str, object]) -> Mapping[str, object]:
    match schema:
        case {"anyOf": [dict() as only, {"type": "null"}], **others}:
            return {**only, **others}
        case {"anyOf": list(alternatives), **others} if _NULL in alternatives:
            return {"anyOf": [it for it in alternatives if it != _NULL], **others}
    return schema


def _without_null_default(field: Mapping[str, object]) -> Mapping[str, object]:
    return {key: value for key, value in field.items() if (key, value) != ("default", None)}
