"""The parts of the console, who sees which, and the address of a page that was wanted."""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from starlette.requests import Request

from mcp_tools_proxy.domain.identity import OperatorRight, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the console, for people with ``right``; None is for everybody."""

    title: str
    path: str
    guide: str
    """The name of its guide, with the anchor of its part."""
    right: OperatorRight | None = None

    def is_for(self, operator: Principal) -> bool:
        """Return whether a person can use it."""
        if self.path == TRY_PATH:
            return may_run(operator)
        return self.right is None or self.right in operator.rights


def may_run(operator: Principal) -> bool:
    """Return whether a person may run tools: by a right for others, or in the own name."""
    return OperatorRight.RUN in operator.rights or operator.own_name is not None


TRY_PATH = "/console/try"

START = "console"
"""The guide of signing in, and of the console as a whole."""

PARTS = (
    Part(title="Overview", path="/console", guide="overview", right=OperatorRight.AUDIT),
    Part(title="Servers", path="/console/servers", guide="servers"),
    Part(
        title="Access",
        path="/console/visibility",
        guide="who-sees-what",
        right=OperatorRight.AUDIT,
    ),
    Part(title="Try", path=TRY_PATH, guide="try"),
    Part(title="Calls", path="/console/calls", guide="calls", right=OperatorRight.AUDIT),
    Part(
        title="Documents",
        path="/console/documents",
        guide="documents",
        right=OperatorRight.DOCUMENTS,
    ),
    Part(
        title="Tokens",
        path="/console/tokens",
        guide="tokens-and-limits#tokens",
        right=OperatorRight.TOKENS,
    ),
    Part(
        title="Limits",
        path="/console/limits",
        guide="tokens-and-limits#limits",
        right=OperatorRight.AUDIT,
    ),
)


def parts_for(operator: Principal) -> list[Part]:
    """Return the parts that a person can use."""
    return [part for part in PARTS if part.is_for(operator)]


def current_part(path: str) -> Part | None:
    """Return the part that a page belongs to."""
    named = f"/{'/'.join(path.split('/')[1:3])}"
    return next((it for it in PARTS if it.path == named), None)


MAX_ADDRESS_CHARS = 2_000

_PATH_CHARS = "/%!$&'()*+,;=:@"
_ADDRESS = re.compile(
    r"/console(?:/[\w.~%!$&'()*+,;=:@-]+)*(?:\?[\w.~%!$&'()*+,;=:@/?-]*)?", re.ASCII
)

_NO_PAGES = frozenset(
    f"/console/{it}"
    for it in ("begin", "callback", "calls/stream", "issuer", "sign-in", "sign-out")
)
"""What is below the console, and is nothing to go on to after a sign-in."""


def address_of(request: Request) -> str:
    """Return path and query of a request, in characters that a query may have."""
    path = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    query = request.scope["query_string"]
    address = b"?".join(filter(None, (path.partition(b"?")[0], query)))
    return quote(address.decode("latin-1"), safe=f"{_PATH_CHARS}?", encoding="latin-1")


def wanted_page(address: str) -> str:
    """Return the address of a page of the console, below any path of a proxy; "" for any other.

    Anybody can make a link to the sign-in. So nothing counts as an address that a browser or a
    proxy could take for another host, or for something outside the console.
    """
    if len(address) > MAX_ADDRESS_CHARS or _ADDRESS.fullmatch(address) is None:
        return ""
    path = unquote(address.partition("?")[0])
    names = re.split(r"[/\\]", path)
    return "" if ".." in names or "." in names or path in _NO_PAGES else address
