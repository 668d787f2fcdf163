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

    def test_additional_items_after_an_empty_tuple_become_items(self) -> None:
        whole = with_argument({"items": [], "additionalItems": {"type": "null"}})
        assert argument(shown({"$schema": DRAFT_7, **whole})) == {"items": {"type": "null"}}

    def test_additional_items_without_a_tuple_are_ignored(self) -> None:
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

    def test_a_schema_invalid_in_2020_12_is_read_as_an_older_draft(self) -> None:
        whole = with_argument({"items": [{"exclusiveMinimum": True, "minimum": 0}]})
        assert argument(shown(whole)) == {"prefixItems": [{"exclusiveMinimum": 0}]}

    def test_the_id_of_draft_4_is_removed(self) -> None:
        whole = with_argument({"type": "string"})
        assert shown({"$schema": DRAFT_4, "id": "urn:x", **whole}) == whole

    def test_only_annotations_are_kept_next_to_a_reference(self) -> None:
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
    def test_a_keyword_unknown_in_the_draft_is_ignored(self, draft: str, unknown: Schema) -> None:
        assert argument(shown({"$schema": draft, **with_argument(unknown)})) == {}


class TestReferences:
    def test_a_reference_at_the_top_is_replaced_by_its_target(self) -> None:
        inner = {"type": "object", "properties": {"b": {"$ref": "#/definitions/In"}}}
        schema = {"$schema": DRAFT_7, "$ref": "#/definitions/In", "definitions": {"In": inner}}
        inner_shown = {"type": "object", "properties": {"b": {"$ref": "#/$defs/In"}}}
        assert shown(schema) == {**inner_shown, "$defs": {"In": inner_shown}}

    def test_unused_definitions_are_removed(self) -> None:
        whole = with_argument({"$ref": "#/definitions/x"}, definitions={"x": {}, "y": {}})
        assert shown(whole)["$defs"] == {"x": {}}

    def test_a_reference_to_the_root_still_refers_to_the_original(self) -> None:
        whole = with_argument({"$ref": "#"}, required=["a b"]) | {"additionalProperties": False}
        whole["properties"]["a b"] = {"type": "string"}
        schema = shown(whole)
        assert set(schema["properties"]) == {"a", "a_b"}
        assert set(schema["$defs"]["root"]["properties"]) == {"a", "a_b"}

    @pytest.mark.parametrize(
        "reference", ["#/properties/b", "#b", "https://x.example/s#/properties/b"]
    )
    def test_a_reference_to_any_path_becomes_a_definition(self, reference: str) -> None:
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

    def test_two_paths_with_the_same_name_get_separate_definitions(self) -> None:
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
    def test_a_dynamic_reference_is_resolved_as_in_a_single_document(self, key: str) -> None:
        draft = DRAFT_2020 if key == "$dynamicRef" else DRAFT_2019
        whole = with_argument({key: "#", "$ref": "#/$defs/x"}, **{"$defs": {"x": {}}})
        schema = shown({"$schema": draft, **whole})
        assert argument(schema) == {"$ref": "#/$defs/x", "allOf": [{"$ref": "#/$defs/root"}]}

    @pytest.mark.parametrize(
        "reference", ["https://x.example/other.json", "#/$defs/none", "#nameless", "other#/x"]
    )
    def test_an_unresolvable_reference_is_relaxed(self, reference: str) -> None:
        schema, warning = relaxed(with_argument({"$ref": reference, "type": "string"}))
        assert argument(schema) == {"type": "string"}
        assert f'"#/properties/a" refers to "{reference}"' in warning

    def test_references_to_an_ambiguous_name_are_not_followed(self) -> None:
        parts = {name: {"$anchor": "x", "type": name} for name in ("string", "integer")}
        given = with_argument({"$ref": "#x"}, **{"$defs": parts})
        assert "which is not in the schema" in relaxed(given)[1]

    def test_references_are_not_followed_if_parts_have_a_separate_base_uri(self) -> None:
        whole = with_argument({"$id": "urn:a", "$ref": "#/$defs/x"}, **{"$defs": {"x": {}}})
        assert "which is not in the schema" in relaxed(whole)[1]
