"""The console's parts, their permissions, and validation of redirect targets after sign-in."""

import re
from urllib.parse import quote, unquote

from starlette.requests import Request

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import OperatorRight, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the console for users with ``right``; None is for everyone."""

    title: str
    path: str
    guide: str
    """Page of the user guide, optionally with an anchor."""
    right: OperatorRight | None = None

    def is_for(self, operator: Principal) -> bool:
        """Return whether a user may open this part."""
        if self.path == TRY_PATH:
            return may_run(operator)
        if self.path == APPROVALS_PATH:
            return operator.may_approve
        return self.right is None or self.right in operator.rights


def may_run(operator: Principal) -> bool:
    """Return whether a user may run tools, either for others or as themselves."""
    return operator.executes and (
        OperatorRight.RUN in operator.rights or operator.own_name is not None
    )


TRY_PATH = "/console/try"
APPROVALS_PATH = "/console/approvals"

START = "console"
"""Guide page about signing in and the console in general."""

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
    Part(
        title="Approvals",
        path=APPROVALS_PATH,
        guide="approvals",
        right=OperatorRight.APPROVE,
    ),
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
    """Return the parts that a user may open."""
    return [part for part in PARTS if part.is_for(operator)]


def first_path(operator: Principal) -> str:
    """Return the part that is opened after sign-in: Approvals for people who only approve."""
    if operator.may_approve and operator.rights == {OperatorRight.APPROVE}:
        return APPROVALS_PATH
    return parts_for(operator)[0].path


def current_part(path: str) -> Part | None:
    """Return the part that contains a page."""
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
"""Console paths that are not valid redirect targets after sign-in."""


def address_of(request: Request) -> str:
    """Return the path and query of a request, percent-encoded for use in a query."""
    path = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    query = request.scope["query_string"]
    address = b"?".join(filter(None, (path.partition(b"?")[0], query)))
    return quote(address.decode("latin-1"), safe=f"{_PATH_CHARS}?", encoding="latin-1")


def wanted_page(address: str) -> str:
    """Return ``address`` if it is a page of the console, otherwise "".

    Anyone can craft a sign-in link. Addresses that a browser or proxy could resolve to another host
    or outside the console are therefore refused.
    """
    if len(address) > MAX_ADDRESS_CHARS or _ADDRESS.fullmatch(address) is None:
        return ""
    path = unquote(address.partition("?")[0])
    names = re.split(r"[/\\]", path)
    return "" if ".." in names or "." in names or path in _NO_PAGES else address
