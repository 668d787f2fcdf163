"""Samples of a call are equivalent in a shell, in Python, and as an MCP request."""

import json
import subprocess
from typing import Any

import pytest

from mcp_tools_proxy.console.pages.tool_calls import MAX_SAMPLE_CHARS, ToolCaller, samples_of
from mcp_tools_proxy.wire.text import readable
from tests.support.tables import each_row

CALLER = ToolCaller(
    tenant_id="acme", user_id="o'neil", agent="a b/c", roles=["x,y"], documents=["d"]
)
TEXTS = [
    "it's",
    '"double" and `ticks`',
    "$(touch pwned) ${HOME} $TOKEN !!",
    "line\nfeed\ttab\r\n",
    "back\\slash \\' \\n",
    "'; rm -rf / #",
    "ключ 👩‍👧 \u202e\u200b\U000e0041 \x00\x7f",
    "</pre><script>alert(1)</script>",
]


def _arguments(text: str) -> dict[str, Any]:
    return {text: [text, {"a": text}], "n": 2.5, "big": 10**30, "t": True, "f": False, "none": None}


@each_row("text", TEXTS)
def test_the_shell_passes_the_exact_body_to_curl(text: str) -> None:
    samples = samples_of("https://gateway.example/tools/", CALLER, text, _arguments(text))
    assert samples is not None
    script = f"curl() {{ printf '%s\\0' \"$@\"; }}\nTOKEN=secret\n{samples.curl}"
    for shell in ("sh", "bash"):
        done = subprocess.run([shell, "-c", script], capture_output=True, check=True)  # noqa: S603 - a constant text
        words = done.stdout.decode().split("\0")
        assert words[:2] == ["-sS", "https://gateway.example/tools/internal/mcp/execute"]
        assert "Authorization: Bearer secret" in words
        body = json.loads(words[words.index("--data-binary") + 1])
        assert body == {
            "tool_name": text,
            "arguments": _arguments(text),
            "user": {"user_id": "o'neil", "tenant_id": "acme", "roles": ["x,y"]},
            "agent": "a b/c",
            "documents": ["d"],
        }


@pytest.mark.parametrize("text", TEXTS)
def test_python_sends_the_exact_body(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = samples_of(None, CALLER, text, _arguments(text))
    assert samples is not None
    sent: dict[str, Any] = {}

    class Answer:
        def json(self) -> None: ...

    def post(url: str, **more: Any) -> Answer:
        sent.update(url=url, **more)
        return Answer()

    monkeypatch.setenv("TOKEN", "secret")
    monkeypatch.setattr("httpx.post", post)
    exec(samples.python, {})  # noqa: S102 - the test compares its effect
    assert sent["url"] == "http://HOST:PORT/internal/mcp/execute"
    assert sent["headers"] == {"Authorization": "Bearer secret"}
    assert (sent["json"]["tool_name"], sent["json"]["arguments"]) == (text, _arguments(text))


@each_row("text", TEXTS)
def test_the_mcp_request_has_the_exact_arguments(text: str) -> None:
    samples = samples_of(None, CALLER, text, _arguments(text))
    assert samples is not None
    head, _, body = samples.mcp.partition("\n\n")
    params = json.loads(body)["params"]
    assert (params["name"], params["arguments"]) == (text, _arguments(text))
    assert params["_meta"]["io.github.mcp-tools-proxy/documents"] == ["d"]
    assert head.splitlines()[0] == "POST http://HOST:PORT/mcp/agents/a%20b%2Fc"
    assert "X-User-Roles: x%2Cy" in head


@each_row("text", TEXTS)
def test_a_page_shows_samples_unchanged(text: str) -> None:
    samples = samples_of(None, CALLER, text, _arguments(text))
    assert samples is not None
    for sample in (samples.curl, samples.python, samples.mcp):
        assert readable(sample) == sample
        assert "\r" not in sample


def test_long_arguments_are_not_repeated() -> None:
    assert samples_of(None, CALLER, "t", {"a": "x" * MAX_SAMPLE_CHARS}) is None
