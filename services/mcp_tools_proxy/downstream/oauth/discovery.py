"""Discovery of the issuer of a server's tokens: RFC 9728, then RFC 8414 or OpenID Connect.

The server's ``Bearer`` challenge (RFC 6750 §3, RFC 9728 §5.1) can name it.
"""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, urlsplit

from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from pydantic import AnyHttpUrl, ValidationError
from yarl import URL

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.domain.server import SCOPE_CHARACTER, ServerAuth, is_same_issuer
from mcp_tools_proxy.downstream.oauth.oauth_web import (
    HttpAnswer,
    IssuerUnavailable,
    OAuthRefused,
    OAuthWeb,
    Reach,
    check_scheme,
    reach_of,
)
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from mcp_tools_proxy.wire.problem_texts import join_first
from mcp_tools_proxy.wire.text import quote
from mcp_tools_proxy.wire.version import VERSION

_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": HANDSHAKE_VERSIONS[-1],
        "capabilities": {},
        "clientInfo": {"name": "mcp-tools-proxy", "version": VERSION},
    },
}
_LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
"""Some servers require a token only after the start of a session."""

_SHOWN_CHARS = 200

_HEADERS = {"MCP-Protocol-Version": MODERN_VERSIONS[-1]}

_ADDRESS = re.compile(r"[!#-;=?-\[\]_a-z~]+")
"""The characters of a URL (RFC 3986); parsers read others differently."""


class IssuerMetadata(OAuthMetadata):
    """Metadata of an issuer; one without a sign-in lacks ``authorization_endpoint``."""

    authorization_endpoint: AnyHttpUrl | None = None  # type: ignore[assignment]
    device_authorization_endpoint: AnyHttpUrl | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """An issuer of tokens, and the addresses allowed for its endpoints."""

    name: str
    """The issuer's identifier as spelled in its metadata; compared character by character."""
    metadata: IssuerMetadata
    server: URL
    """The MCP server's address, which decides the reach of every endpoint."""
    configured: frozenset[URL]

    def reach_of(self, endpoint: URL) -> Reach:
        """Return the addresses allowed for requests to an endpoint."""
        return reach_of(endpoint, self.server, self.configured)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """The resource and the issuer of tokens for a server."""

    resource: str
    issuer: Issuer
    scopes: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Challenge:
    """A server's statement about the token that it wants; untrusted."""

    error: str = ""
    scopes: tuple[str, ...] | None = None
    metadata_url: str | None = None

    @property
    def is_insufficient_scope(self) -> bool:
        """Whether the token is valid but lacks a scope."""
        return self.error == "insufficient_scope"


class Discovery:
    """Discovery of one server's issuer, from its address ``server`` and its entry's ``auth``."""

    def __init__(self, web: OAuthWeb, server: URL, auth: ServerAuth) -> None:
        self._web = web
        self._server = server
        self._auth = auth
        self._configured = origins_of([auth.issuer] if auth.issuer else [])

    async def discover(self, challenge: Challenge | None) -> Discovered:
        """Find the resource and its issuer. Raises IssuerUnavailable, OAuthRefused."""
        found = await self._resource_metadata(challenge)
        issuer = self._auth.issuer
        if found is not None:
            if issuer is not None and not any(
                is_same_issuer(issuer, other) for other in found.issuers
            ):
                raise OAuthRefused(
                    "authorizationServer in the entry is not among the issuers in the server's "
                    f"metadata, {_shown(found.issuers)}; both must be the same text"
                )
            issuer = issuer or found.issuers[0]
        return Discovered(
            resource=self._resource(found),
            issuer=await find_issuer(
                self._web, issuer, server=self._server, configured=self._configured
            ),
            scopes=None if found is None else found.scopes,
        )

    async def _resource_metadata(self, challenge: Challenge | None) -> "_Resource | None":
        named = None if challenge is None else challenge.metadata_url
        unavailable: IssuerUnavailable | None = None
        for text in build_protected_resource_metadata_discovery_urls(named, str(self._server)):
            url = _url(text)
            try:
                answer = await self._web.get(
                    url, reach_of(url, self._server, self._configured), _HEADERS
                )
            except IssuerUnavailable as error:  # leaves open whether the server publishes metadata
                unavailable = without_frames(error)
                continue
            resource = _read_resource(answer)
            if resource is not None:
                return resource
        if unavailable is not None:
            raise unavailable
        return None

    def _resource(self, metadata: "_Resource | None") -> str:
        if metadata is None:  # a query may have a secret, which the issuer must not see
            found = str(self._server.with_query(None).with_fragment(None))
        elif contains(metadata.name, str(self._server.with_fragment(None))):
            found = metadata.name
        else:
            raise OAuthRefused(
                f"the resource in the server's metadata does not match its url: "
                f"{_shown([metadata.name])}"
            )
        if self._auth.resource is not None and self._auth.resource != found:
            raise OAuthRefused(
                f"resource in the entry differs from that in the server's metadata, "
                f"{_shown([found])}; both must be the same text"
            )
        return found


async def find_challenge(web: OAuthWeb, server: URL) -> Challenge | None:
    """Return the challenge of a server's refusal; None if it does not refuse, or is unavailable."""
    reach = reach_of(server, server, frozenset({server.origin()}))
    for request in (_INITIALIZE, _LIST):
        try:
            answer = await web.post_json(server, reach, request)
        except (IssuerUnavailable, OAuthRefused):
            continue
        if answer.status == 401:
            return read_challenge(answer.challenges)
    return None


async def find_issuer(
    web: OAuthWeb, issuer: str | None, *, server: URL, configured: frozenset[URL]
) -> Issuer:
    """Find an issuer and its metadata; the default issuer is the server's origin.

    MCP 2025-03-26 defines that default. Raises IssuerUnavailable, OAuthRefused.
    """
    expected = str(server.origin()) if issuer is None else issuer
    _url(expected)  # its name is logged, and shown in terminals
    for text in build_oauth_authorization_server_metadata_discovery_urls(issuer, str(server)):
        url = _url(text)
        answer = await web.get(url, reach_of(url, server, configured), _HEADERS)
        if answer.status != 200 or not isinstance(answer.content, dict):
            continue
        try:
            metadata = IssuerMetadata.model_validate(answer.content)
        except ValidationError:
            raise OAuthRefused(f"the metadata of issuer {expected} is not valid") from None
        name = str(answer.content["issuer"])
        if not is_same_issuer(name, expected):
            raise OAuthRefused(f"the metadata of issuer {expected} names another issuer")
        found = Issuer(name=name, metadata=metadata, server=server, configured=configured)
        for endpoint in (metadata.authorization_endpoint, metadata.token_endpoint):
            if endpoint is not None:
                check_scheme(_url(str(endpoint)), found.reach_of(_url(str(endpoint))))
        return found
    raise OAuthRefused(f"issuer {expected} publishes no metadata")


def origins_of(addresses: Iterable[str]) -> frozenset[URL]:
    """Return the origins of addresses that the operator wrote. Raises OAuthRefused."""
    return frozenset(_url(address).origin() for address in addresses)


def http_url(address: str) -> URL:
    """Return a server's HTTP address, the location of its metadata, also for a WebSocket."""
    url = URL(address)
    return url.with_scheme({"ws": "http", "wss": "https"}.get(url.scheme, url.scheme))


def contains(resource: str, address: str) -> bool:
    """Return whether an address is a resource's, or below it by whole segments of the path.

    A resource that issuers could normalize to another one does not count: it is sent as spelled.
    """
    outer, inner = _url(resource), _url(address)
    if outer.origin() != inner.origin() or outer.query_string or outer.fragment:
        return resource == address
    if not _is_plain(resource):
        return False
    above, below = outer.raw_path.rstrip("/"), inner.raw_path.rstrip("/")
    return below == above or below.startswith(f"{above}/")


@dataclass(frozen=True, slots=True)
class _Resource:
    name: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] | None


def _read_resource(answer: HttpAnswer) -> _Resource | None:
    if answer.status != 200 or not isinstance(answer.content, dict):
        return None
    try:
        metadata = ProtectedResourceMetadata.model_validate(answer.content)
    except ValidationError:
        return None
    scopes = metadata.scopes_supported
    return _Resource(
        name=answer.content["resource"],
        issuers=tuple(answer.content["authorization_servers"]),
        scopes=None if scopes is None else read_scopes(scopes),
    )


def _shown(addresses: Sequence[str]) -> str:
    """Return addresses from a server, for operators; without queries, which may be secrets."""
    plain = [address.partition("?")[0].partition("#")[0] for address in addresses]
    shown = [quote(address, _SHOWN_CHARS) for address in plain]
    return join_first(shown, limit=3, separator=", ", more=", and {} more")


def _url(text: str) -> URL:
    """Parse an address from a server or issuer. Raises OAuthRefused."""
    try:
        url = URL(text)
        url.origin()
        if _ADDRESS.fullmatch(text) is not None:
            return url
    except ValueError:
        pass
    raise OAuthRefused("an address in the metadata is not valid")


def _is_plain(text: str) -> bool:
    """Return whether an address has neither a user nor a ``.`` or ``..`` segment in its path."""
    parts = urlsplit(text)
    return "@" not in parts.netloc and not {".", ".."} & set(unquote(parts.path).split("/"))


_SCHEME = re.compile(r"(?:^|,)\s*bearer(?=\s|,|$)", re.IGNORECASE)
_PARAMETER = re.compile(r'(?<![\w-])([A-Za-z0-9_-]++)\s*+=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')

MAX_CHARS = 8192

MAX_SCOPES = 100
"""Maximum number of scopes read from a server or an issuer; users and callers see them."""

_SCOPE_NAME = re.compile(SCOPE_CHARACTER + "{1,256}")
"""Keeps sentences written by a server out of the gateway's answers."""


def read_scopes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the valid scopes named by a server or an issuer, without duplicates."""
    scopes = dict.fromkeys(name for name in names if _SCOPE_NAME.fullmatch(name))
    return tuple(scopes)[:MAX_SCOPES]


def read_challenge(headers: Iterable[str]) -> Challenge | None:
    """Return the first Bearer challenge of the values of ``WWW-Authenticate``, if any."""
    for header in headers:
        found = _SCHEME.search(header[:MAX_CHARS])
        if found is not None:
            return _read(header[found.end() : MAX_CHARS])
    return None


def _read(parameters: str) -> Challenge:
    values: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(parameters):
        values.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
    scope = values.get("scope")
    return Challenge(
        error=values.get("error", ""),
        scopes=None if scope is None else read_scopes(scope.split()),
        metadata_url=values.get("resource_metadata"),
    )
