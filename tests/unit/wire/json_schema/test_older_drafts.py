"""Older drafts said in 2020-12, and where references lead."""

import pytest

from tests.unit.wire.json_schema.adapted_schema import (
    DRAFT_4,
    DRAFT_7,
    DRAFT_2019,
    DRAFT_2020,
    Schema,
    argument,
    relaxed,
    shown,
    with_argument,
)


class TestOlderDrafts:
    def test_a_tuple_becomes_prefix_items(self) -> None:
        tuple_schema = {"items": [{"type": "string"}], "additionalItems": {"type": "integer"}}
        whole = shown({"$schema": DRAFT_7, **with_argument(tuple_schema)})
        expected = {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
        assert argument(whole) == expected

    def test_an_empty_tuple_says_what_follows_it(self) -> None:
        whole = with_argument({"items": [], "additionalItems": {"type": "null"}})
        assert argument(shown({"$schema": DRAFT_7, **whole})) == {"items": {"type": "null"}}

    def test_additional_items_beside_no_tuple_say_nothing(self) -> None:
        whole = {"$schema": DRAFT_7, **with_argument({"items": {}, "additionalItems": False})}
        assert argument(shown(whole)) == {"items": {}}

    def test_dependencies_on_names_and_on_schemas_are_separated(self) -> None:
        whole = with_argument({"dependencies": {"x": ["y"], "z": {"required": ["w"]}}})
        expected = {
            "dependentRequired": {"x": ["y"]},
            "dependentSchemas": {"z": {"required": ["w"]}},
        }
        assert argument(shown({"$schema": DRAFT_7, **whole})) == expected

    @pytest.mark.parametrize(
        ("bounds", "expected"),
        [
            ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
            ({"maximum": 1, "exclusiveMaximum": True}, {"exclusiveMaximum": 1}),
            ({"minimum": 1, "exclusiveMinimum": False}, {"minimum": 1}),
        ],
    )
    def test_a_boolean_bound_becomes_a_number(self, bounds: Schema, expected: Schema) -> None:
        assert argument(shown({"$schema": DRAFT_4, **with_argument(bounds)})) == expected

    def test_what_cannot_be_of_2020_is_read_as_older(self) -> None:
        whole = with_argument({"items": [{"exclusiveMinimum": True, "minimum": 0}]})
        assert argument(shown(whole)) == {"prefixItems": [{"exclusiveMinimum": 0}]}

    def test_the_id_of_draft_4_is_left_out(self) -> None:
        whole = with_argument({"type": "string"})
        assert shown({"$schema": DRAFT_4, "id": "urn:x", **whole}) == whole

    def test_only_annotations_count_beside_a_reference(self) -> None:
        reference = {"$ref": "#/definitions/x", "type": "string", "title": "T"}
        whole = with_argument(reference, definitions={"x": {"minLength": 1}})
        old, new = shown({"$schema": DRAFT_7, **whole}), shown(whole)
        assert argument(old) == {"$ref": "#/$defs/x", "title": "T"}
        assert argument(new) == {"$ref": "#/$defs/x", "type": "string", "title": "T"}

    @pytest.mark.parametrize(
        ("draft", "unknown"),
        [
            (DRAFT_7, {"prefixItems": [{"type": "string"}]}),
            (DRAFT_7, {"dependentRequired": {"x": ["y"]}}),
            (DRAFT_4, {"const": 1}),
            (DRAFT_2019, {"prefixItems": [{"type": "string"}]}),
        ],
    )
    def test_a_keyword_that_the_draft_does_not_know_says_nothing(
        self, draft: str, unknown: Schema
    ) -> None:
        assert argument(shown({"$schema": draft, **with_argument(unknown)})) == {}


class TestReferences:
    def test_a_reference_at_the_top_is_replaced_by_what_it_leads_to(self) -> None:
        inner = {"type": "object", "properties": {"b": {"$ref": "#/definitions/In"}}}
        schema = {"$schema": DRAFT_7, "$ref": "#/definitions/In", "definitions": {"In": inner}}
        inner_shown = {"type": "object", "properties": {"b": {"$ref": "#/$defs/In"}}}
        assert shown(schema) == {**inner_shown, "$defs": {"In": inner_shown}}

    def test_definitions_that_nothing_leads_to_are_left_out(self) -> None:
        whole = with_argument({"$ref": "#/definitions/x"}, definitions={"x": {}, "y": {}})
        assert shown(whole)["$defs"] == {"x": {}}

    def test_a_reference_to_the_whole_still_means_the_original(self) -> None:
        whole = with_argument({"$ref": "#"}, required=["a b"]) | {"additionalProperties": False}
        whole["properties"]["a b"] = {"type": "string"}
        schema = shown(whole)
        assert set(schema["properties"]) == {"a", "a_b"}
        assert set(schema["$defs"]["root"]["properties"]) == {"a", "a_b"}

    @pytest.mark.parametrize(
        "reference", ["#/properties/b", "#b", "https://x.example/s#/properties/b"]
    )
    def test_a_reference_to_any_place_leads_to_a_definition(self, reference: str) -> None:
        whole = {
            "$id": "https://x.example/s",
            "type": "object",
            "properties": {"a": {"$ref": reference}, "b": {"$anchor": "b", "type": "string"}},
        }
        schema = shown(whole)
        assert (argument(schema), schema["$defs"]) == (
            {"$ref": "#/$defs/b"},
            {"b": {"type": "string"}},
        )

    def test_two_places_of_one_name_keep_apart(self) -> None:
        places = {"x/y": {"type": "string"}, "x y": {"type": "integer"}, "x_y": {"type": "null"}}
        references = [{"$ref": f"#/$defs/{name}"} for name in ("x~1y", "x%20y", "x_y")]
        whole = shown(with_argument({"prefixItems": references}, **{"$defs": places}))
        targets = [whole["$defs"][r["$ref"][8:]] for r in argument(whole)["prefixItems"]]
        assert targets == list(places.values())

    def test_a_lone_dynamic_reference_becomes_a_plain_one(self) -> None:
        whole = with_argument({"$dynamicRef": "#x"}, **{"$defs": {"y": {"$dynamicAnchor": "x"}}})
        schema = shown(whole)
        assert (argument(schema), schema["$defs"]) == ({"$ref": "#/$defs/x"}, {"x": {}})

    @pytest.mark.parametrize("key", ["$dynamicRef", "$recursiveRef"])
    def test_a_dynamic_reference_leads_where_it_does_in_one_document(self, key: str) -> None:
        draft = DRAFT_2020 if key == "$dynamicRef" else DRAFT_2019
        whole = with_argument({key: "#", "$ref": "#/$defs/x"}, **{"$defs": {"x": {}}})
        schema = shown({"$schema": draft, **whole})
        assert argument(schema) == {"$ref": "#/$defs/x", "allOf": [{"$ref": "#/$defs/root"}]}

    @pytest.mark.parametrize(
        "reference", ["https://x.example/other.json", "#/$defs/none", "#nameless", "other#/x"]
    )
    def test_a_reference_to_nowhere_is_loosened(self, reference: str) -> None:
        schema, warning = relaxed(with_argument({"$ref": reference, "type": "string"}))
        assert argument(schema) == {"type": "string"}
        assert f'"#/properties/a" refers to "{reference}"' in warning

    def test_no_reference_is_followed_to_a_name_of_several_parts(self) -> None:
        parts = {name: {"$anchor": "x", "type": name} for name in ("string", "integer")}
        given = with_argument({"$ref": "#x"}, **{"$defs": parts})
        assert "which is not in the schema" in relaxed(given)[1]

    def test_no_reference_is_followed_where_parts_have_a_base_of_their_own(self) -> None:
        whole = with_argument({"$id": "urn:a", "$ref": "#/$defs/x"}, **{"$defs": {"x": {}}})
        assert "which is not in the schema" in relaxed(whole)[1]
