import json
from base64 import b64encode

import mcp_types as t

Answer = t.CallToolResult | t.InputRequiredResult

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJ"
    "RU5ErkJggg=="
)

SILENCE = b64encode(
    b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0"
).decode()


def text_result(text: str, *, is_error: bool = False) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=text)], is_error=is_error)


def image() -> t.ImageContent:
    return t.ImageContent(data=PIXEL, mime_type="image/png")


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> t.EmbeddedResource:
    contents = t.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return t.EmbeddedResource(resource=contents)


FIXED: dict[str, t.CallToolResult] = {
    "test_simple_text": text_result("This is a simple text response for testing."),
    "test_image_content": t.CallToolResult(content=[image()]),
    "test_audio_content": t.CallToolResult(
        content=[t.AudioContent(data=SILENCE, mime_type="audio/wav")]
    ),
    "test_embedded_resource": t.CallToolResult(
        content=[embedded("test://embedded-resource", "This is an embedded resource content.")]
    ),
    "test_multiple_content_types": t.CallToolResult(
        content=[
            t.TextContent(text="Multiple content types test:"),
            image(),
            embedded(
                "test://mixed-content-resource",
                json.dumps({"test": "data", "value": 123}),
                "application/json",
            ),
        ]
    ),
    "test_error_handling": text_result(
        "This tool intentionally returns an error for testing", is_error=True
    ),
}

TEXTS = {
    "test://static-text": "This is the content of the static text resource.",
    "test://watched-resource": "Watched resource content.",
}
BINARY = "test://static-binary"
TEMPLATE = "test://template/{id}/data"


def contents_of(uri: str) -> t.TextResourceContents | t.BlobResourceContents | None:
    if uri in TEXTS:
        return t.TextResourceContents(uri=uri, mime_type="text/plain", text=TEXTS[uri])
    if uri == BINARY:
        return t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
    start, end = TEMPLATE.split("{id}")
    identifier = uri.removeprefix(start).removesuffix(end)
    if uri != f"{start}{identifier}{end}" or not identifier:
        return None
    data = {"id": identifier, "templateTest": True, "data": f"Data for ID: {identifier}"}
    return t.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))


PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}
"""Required arguments of each prompt."""


def messages_of(name: str, arguments: dict[str, str]) -> list[t.PromptMessage] | None:
    """Fill in a prompt; None if it is unknown or sends a request first."""
    contents: list[t.ContentBlock]
    match name:
        case "test_simple_prompt":
            contents = [t.TextContent(text="This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            one, two = arguments.get("arg1", ""), arguments.get("arg2", "")
            contents = [t.TextContent(text=f"Prompt with arguments: arg1='{one}', arg2='{two}'")]
        case "test_prompt_with_embedded_resource":
            resource = embedded(arguments.get("resourceUri", ""), "Embedded resource content.")
            contents = [resource, t.TextContent(text="Please process the resource above.")]
        case "test_prompt_with_image":
            contents = [image(), t.TextContent(text="Please analyze the image above.")]
        case _:
            return None
    return [t.PromptMessage(role="user", content=content) for content in contents]
