from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from mcp_tools_proxy.http.api.schemas import add_schema, open_names
from mcp_tools_proxy.http.fast_routes import Components


class Leaf(BaseModel):
    """A ``leaf``."""

    colour: Annotated[str, open_names("Colour", "Its colour.", ["green", "red"])] | None = None


class Tree(BaseModel, title="Plant"):
    leaves: list[Leaf]
    notes: Annotated[dict[str, object], Field(title="Notes")] | None = None


COLOUR = {
    "anyOf": [{"$ref": "#/components/schemas/Colour"}, {"type": "string"}],
}


def test_schemas_with_a_title_are_shared_by_reference() -> None:
    components: Components = {}
    assert add_schema(components, Tree, "serialization") == {"$ref": "#/components/schemas/Plant"}
    assert components["schemas"] == {
        "Colour": {
            "title": "Colour",
            "type": "string",
            "enum": ["green", "red"],
            "description": "Its colour.",
        },
        "Leaf": {
            "title": "Leaf",
            "type": "object",
            "description": "A `leaf`.",
            "properties": {"colour": COLOUR},
        },
        "Notes": {"title": "Notes", "type": "object", "additionalProperties": True},
        "Plant": {
            "title": "Plant",
            "type": "object",
            "properties": {
                "leaves": {"type": "array", "items": {"$ref": "#/components/schemas/Leaf"}},
                "notes": {"$ref": "#/components/schemas/Notes"},
            },
            "required": ["leaves"],
        },
    }


def test_null_is_allowed_in_requests() -> None:
    components: Components = {}
    add_schema(components, Tree, "validation")
    assert components["schemas"]["Plant"]["properties"]["notes"] == {  # type: ignore[index] # JSON
        "anyOf": [{"$ref": "#/components/schemas/Notes"}, {"type": "null"}]
    }


def test_two_schemas_with_the_same_title_raise_an_error() -> None:
    components: Components = {}
    add_schema(components, Annotated[dict[str, object], Field(title="Leaf")], "serialization")
    with pytest.raises(ValueError, match="two different schemas have the title Leaf"):
        add_schema(components, Leaf, "serialization")
