from tests.support.configuration import Json

RICH_TOOL = {
    "name": "rich",
    "title": "Réich 🛠",
    "description": "Does it.\n\tTwice.",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"part": {"type": "string", "pattern": "^ü+$"}},
        "properties": {"a": {"$ref": "#/$defs/part"}, "b": {"anyOf": [{"type": "null"}, {}]}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "title": "x"},
    "icons": [{"src": "data:image/png;base64,AA==", "mimeType": "image/png"}],
    "_meta": {"com.example/tag": [1, {"deep": None}]},
    "somethingNew": {"kept": True},
}
RICH_PROMPT = {
    "name": "rich",
    "title": "Rich",
    "arguments": [{"name": "who", "title": "Who", "description": "é", "required": False}],
    "_meta": {"com.example/tag": 1},
}
RICH_RESOURCE = {
    "uri": "raw://rich/é",
    "name": "rich",
    "title": "Rich",
    "size": 0,
    "annotations": {"audience": ["user"], "priority": 0.0},
    "_meta": {"com.example/tag": 1},
}
RICH_TEMPLATE = {"uriTemplate": "rich://{+path}", "name": "rich", "annotations": {"priority": 1}}
EXTRA: dict[str, list[Json]] = {
    "tools": [RICH_TOOL],
    "prompts": [RICH_PROMPT],
    "resources": [RICH_RESOURCE],
    "resourceTemplates": [RICH_TEMPLATE],
}
LISTS: dict[str, tuple[str, Json]] = {
    "tools/list": ("tools", {**RICH_TOOL, "name": "s1:rich"}),
    "prompts/list": ("prompts", RICH_PROMPT),
    "resources/list": ("resources", RICH_RESOURCE),
    "resources/templates/list": ("resourceTemplates", RICH_TEMPLATE),
}
TEXT = {"type": "text", "text": 'Grüße 👋🏽 \u0000\u2028 "q" \\ ‮', "annotations": {"priority": 0.5}}
RESULTS: dict[str, Json] = {
    "text": {"content": [TEXT]},
    "image": {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]},
    "audio": {"content": [{"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}]},
    "embedded text": {"content": [{"type": "resource", "resource": {"uri": "x://1", "text": "é"}}]},
    "embedded bytes": {
        "content": [{"type": "resource", "resource": {"uri": "x://1", "blob": "AAE="}}]
    },
    "link": {"content": [{"type": "resource_link", "uri": "x://1", "name": "one", "size": 0}]},
    "an object": {"content": [], "structuredContent": {"n": 1.0, "big": 2**53, "none": None}},
    "an own key": {"content": [{**TEXT, "_meta": {"com.example/a": [None]}}]},
    "_meta": {"content": [TEXT], "_meta": {"com.example/cost": {"usd": 0.1}}},
    "several": {"content": [TEXT, {"type": "image", "data": "AA==", "mimeType": "image/x"}, TEXT]},
}
FAILURES: dict[str, tuple[str, Json]] = {
    "no prompt": ("prompts/get", {"name": "nowhere"}),
    "no argument": ("prompts/get", {"name": "greet"}),
    "no resource": ("resources/read", {"uri": "raw://nowhere"}),
    "no reference": ("completion/complete", {"ref": {}, "argument": {"name": "a", "value": ""}}),
}


PROGRESS = "notifications/progress"
LOG_LINE = "notifications/message"
FORM: Json = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which name? é",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
SAMPLE: Json = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}],
        "maxTokens": 7,
    },
}
ANSWERS: dict[str, Json] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ö"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Ho"},
        "model": "m",
    },
}
LOG_LINES = [
    {"method": LOG_LINE, "params": {"level": level, "data": {"é": level}, "logger": "x"}}
    for level in ("debug", "warning", "critical")
]


def requesting_tool(server_era: str, question: Json) -> tuple[str, Json]:
    """Return the tool that makes a server of an era send a request, and its arguments."""
    return (
        ("request_client", question)
        if server_era == "legacy"
        else ("input", {"questions": {"q": question}})
    )


def answer_received(server_era: str, result: Json) -> Json:
    structured = result["structuredContent"]
    answer: Json = (
        structured["answers"][0]["result"]
        if server_era == "legacy"
        else structured["seen"][-1]["q"]
    )
    return answer
