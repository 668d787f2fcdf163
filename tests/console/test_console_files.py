"""The console's templates and files: permitted contents and origin."""

import re
from hashlib import sha256
from pathlib import Path

import mcp_tools_proxy.console
from tests.support.console_browser import running_console
from tests.support.program_launch import ROOT

FOLDER = Path(mcp_tools_proxy.console.__file__).parent
TEMPLATES = {
    it.name: it.read_text(encoding="utf-8") for it in sorted((FOLDER / "templates").glob("*.html"))
}
VENDORED = re.findall(
    r"^\| `([^`]+)` \|.*\| ([\w.-]+), `([^`]+)` \| `([0-9a-f]{64})` \|$",
    (FOLDER / "assets/VENDORED.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
DOCUMENTS = sorted((ROOT / "docs/how-to/console").glob("*.md"))
FORBIDDEN = re.compile(
    r"\|\s*safe\b|Markup|autoescape|<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+\s*=|"
    r"javascript:|hx-on|hx-vals=[\"']js|hx-vars|data:"
)
"""Constructs that would run foreign text or treat it as markup."""
NEVER_HIDDEN = ("page_number", "change.kind", "change.sha256", 'login["for"]')
"""The console's own values that a form sends back."""


def test_no_template_can_turn_text_into_markup_or_scripts() -> None:
    found = {name: FORBIDDEN.findall(text) for name, text in TEMPLATES.items()}
    assert failing(found) == {}


def test_every_internal_address_begins_with_the_proxy_path() -> None:
    address = re.compile(r'(?:href|action|src|hx-get|hx-post|sse-connect)="/[^"]*"')
    found = {name: address.findall(text) for name, text in TEMPLATES.items()}
    assert failing(found) == {}


def test_every_value_that_a_form_sends_back_is_unchanged() -> None:
    assert failing({name: changed_values(text) for name, text in TEMPLATES.items()}) == {}


def test_a_template_imports_only_macros_that_it_uses() -> None:
    assert failing({name: unused_imports(text) for name, text in TEMPLATES.items()}) == {}


def failing(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the files with a finding; fail if no file was checked."""
    assert found
    return {name: texts for name, texts in found.items() if texts}


def changed_values(template: str) -> list[str]:
    """Return the printed values of fields that are neither verbatim nor our own."""
    printed = [
        *re.findall(r'\svalue="\{\{(.*?)\}\}"', template),
        *re.findall(r"\{\{([^}]*)\}\}</textarea>", template),
    ]
    changed = [it.strip() for it in printed if not re.search(r"\|(verbatim|urlencode) $", it)]
    return [it for it in changed if it not in NEVER_HIDDEN]


def unused_imports(template: str) -> list[str]:
    code = re.findall(r"\{[{%](.*?)[%}]\}", template, re.DOTALL)
    imports = [it.removesuffix(" with context ") for it in code if re.match(r" (from|import) ", it)]
    used = " ".join(it for it in code if not re.match(r" (from|import) ", it))
    names = [name for it in imports for name in re.split(r" (?:import|as) ", it)[-1].split(",")]
    return [it for it in map(str.strip, names) if not re.search(rf"\b{it}[(.]", used)]


def test_third_party_files_are_unmodified() -> None:
    assert VENDORED
    for name, licence, licence_file, digest in VENDORED:
        assert sha256((FOLDER / "assets" / name).read_bytes()).hexdigest() == digest, name
        assert (FOLDER / "assets" / licence_file).stat().st_size > 0, name
        assert licence in ("0BSD", "OFL-1.1"), name


def test_every_third_party_file_is_listed() -> None:
    ours = {"console.css", "console.js", "icon.svg", "VENDORED.md"}
    found = {it.name for it in (FOLDER / "assets").iterdir() if not it.name.endswith(".LICENSE")}
    assert found - ours == {name for name, *_ in VENDORED}


async def test_files_need_no_sign_in_and_are_cached_by_content() -> None:
    async with running_console() as console:
        browser = console.new_browser()
        response = await browser.get("/console/assets/console.css")
        assert response.headers["content-type"] == "text/css; charset=utf-8"
        assert "immutable" in response.headers["cache-control"]
        for name in ("VENDORED.md", "..%2fsessions.py", "htmx.LICENSE", "none.css", "%00"):
            response = await browser.get(f"/console/assets/{name}", follow=False)
            assert response.status_code in (303, 404), name


def test_bold_names_in_the_documentation_appear_on_a_page() -> None:
    code = [it.read_text(encoding="utf-8") for it in FOLDER.rglob("*.py")]
    pages = " ".join(" ".join([*TEMPLATES.values(), *code]).split())
    missing = {}
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        named = re.findall(r"\*\*(.+?)\*\*", text, re.DOTALL)
        assert named, document.name
        parts = [" ".join(it.split()) for name in named for it in re.split(r"…|\.$", name)]
        missing[document.name] = [it for it in parts if it not in pages]
    assert failing(missing) == {}
