from typing import Any

from mcp_tools_proxy.wire.json_schema.api_rules import ANTHROPIC, SchemaRules
from mcp_tools_proxy.wire.json_schema.schema_adapter import adapt_schema

Schema = dict[str, Any]

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def shown(schema: Schema, rules: SchemaRules = ANTHROPIC) -> Schema:
    """Adapt a schema that must not need relaxation."""
    result = adapt_schema(schema, rules)
    assert result.warnings == ()
    return dict(result.schema)


def relaxed(schema: Schema, rules: SchemaRules = ANTHROPIC) -> tuple[Schema, str]:
    """Adapt a schema that needs one relaxation; return it and the warning."""
    result = adapt_schema(schema, rules)
    (warning,) = result.warnings
    return dict(result.schema), warning


def with_argument(schema: object, **more: object) -> Schema:
    return {"type": "object", "properties": {"a": schema}, **more}


def argument(schema: Schema, name: str = "a") -> Any:
    return schema["properties"][name]
