"""Refusals of files end with what to do, in words that fit every entry."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import mcp_tools_proxy.documents.importers as importers

_ADVICE = re.compile(
    r"[:;.,] (?:to .*, |for OCR, |if .*, )?(?:check|choose|convert|copy|correct|cut|delete|export|"
    r"import|install|name|open|print|put|remove|rename|save|scan|send|set|show|unpack|use)\b",
    re.IGNORECASE,
)
_REFUSAL = re.compile(r"(?:is|has|cannot|does not|names|needs|starts|takes|unpacks|results) ")
_SEEN_BY_DEVELOPERS = ("does not result in a valid document", "results in a different document")
_PART = "cannot be imported: the importer crashed"


def _texts(source: ast.Module) -> Iterator[str]:
    """Yield the texts of refusals, which complete "FILE: …"."""
    for node in ast.walk(source):
        match node:
            case ast.Call(func=ast.Name(id="ImportFailed"), args=[text]):
                yield _text(text)
            case ast.Assign(value=ast.Constant(value=str() as text)) if _REFUSAL.match(text):
                yield text


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):  # advice can be a variable
            return "".join(_text(it) or "use" for it in values)
    return ""


def test_every_refusal_says_what_to_do() -> None:
    modules = sorted(Path(importers.__path__[0]).glob("*.py"))
    texts = {text for it in modules for text in _texts(ast.parse(it.read_text())) if text}
    assert len(texts) > 40
    assert [
        text
        for text in sorted(texts)
        if not _ADVICE.search(text) and not text.startswith(_SEEN_BY_DEVELOPERS) and text != _PART
    ] == []
    assert [text for text in texts if "--" in text] == []
