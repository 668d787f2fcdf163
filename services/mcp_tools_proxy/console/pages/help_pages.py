"""Serves the user guides packaged with the console, without authentication."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mcp_tools_proxy.console.navigation import START
from mcp_tools_proxy.console.page_endpoint import Pages
from mcp_tools_proxy.console.page_request import PageRequest, PageView
from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_PACKAGED = Path(__file__).parents[1] / "guide_texts"

_OF_CHECKOUT = Path(__file__).parents[4] / "docs" / "how-to"

_PATHS: Mapping[str, str] = {
    START: "console.md",
    **{
        name: f"console/{name}.md"
        for name in (
            "overview",
            "servers",
            "who-sees-what",
            "try",
            "approvals",
            "calls",
            "documents",
            "tokens-and-limits",
        )
    },
}
"""Files of the guides below ``docs/how-to``, by name."""

_ANCHOR = re.compile(r'<a id="([\w-]+)"></a>\s*\n#+ (.+)')
"""An anchor and the heading below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A rendered guide."""

    title: str
    html: Markup


@lru_cache(maxsize=len(_PATHS))
def guide_of(name: str, base: str) -> Guide | None:
    """Return a guide with links below ``base``; None if it is unknown."""
    path = _PATHS.get(name)
    if path is None:
        return None
    folder = _PACKAGED if _PACKAGED.exists() else _OF_CHECKOUT
    text = (folder / path).read_text(encoding="utf-8")
    anchors = {heading: anchor for anchor, heading in _ANCHOR.findall(text)}
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", _close_table)
    tokens = parser.parse(re.sub(r'<a id="[\w-]+"></a>', "", text))
    title = ""
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            heading = following.content
            title = title or heading
            token.attrSet("id", anchors.get(heading) or _slug(heading))
    for token in tokens:
        token.children = list(_linked(token.children or (), path, base))
    html = parser.renderer.render(tokens, parser.options, {}).replace("<p></p>\n", "")
    return Guide(title=title, html=Markup(html))  # noqa: S704 - our own text


def _linked(tokens: Sequence[Token], path: str, base: str) -> Iterator[Token]:
    """Yield the inline tokens without images and without links outside the guides."""
    is_kept = False
    for token in tokens:
        if token.type == "link_open":
            address = _address(str(token.attrGet("href")), path, base)
            is_kept = address is not None
            token.attrSet("href", address or "")
        if token.type == "image" or (token.type.startswith("link_") and not is_kept):
            continue
        yield token


def _address(href: str, path: str, base: str) -> str | None:
    """Return the address of a linked guide; None for other pages."""
    if href.startswith("#"):
        return href
    file, _, anchor = href.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
    name = next((name for name, it in _PATHS.items() if it == wanted), None)
    return None if name is None else f"{base}/console/help/{name}{f'#{anchor}' if anchor else ''}"


def _slug(heading: str) -> str:
    """Return the anchor of a heading as generated in the documentation."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def _open_table(_: object, tokens: Sequence[Token], index: int, *_more: object) -> str:
    number = sum(token.type == "table_open" for token in tokens[: index + 1])
    return f'<div class="scroll" role="region" aria-label="Table {number}" tabindex="0"><table>\n'


def _close_table(*_: object) -> str:
    return "</table></div>\n"


HELP_PATH = "/console/help"


def help_routes(pages: Pages) -> Sequence[Route]:
    """Return the route of the guides."""
    return (Route(f"{HELP_PATH}/{{name}}", _HelpPage(pages).show, methods=["GET"]),)


class _HelpPage:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def show(self, request: Request) -> Response:
        page: PageRequest | None = None
        with suppress(LoginsUnavailable):
            page = await self._pages.signed_in(request)
        guide = guide_of(request.path_params["name"], self._pages.base)
        view = PageView(template="no_page.html", status=404)
        if guide is not None:
            view = PageView(template="help.html", context={"title": guide.title, "guide": guide})
        return self._pages.render(request, view, page)
