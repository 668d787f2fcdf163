"""In-process client of the HTTP API that uses the session's token."""

from collections.abc import Container, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel
from pydantic_core import from_json, to_json
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.console.page_text import sentence
from mcp_tools_proxy.domain.audit import Entry
from mcp_tools_proxy.domain.errors import RouteNotFound
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.api.definition_routes import DefinitionsAnswer
from mcp_tools_proxy.http.api.document_models import (
    ChangedFacts,
    DocumentContent,
    DocumentRights,
    DocumentsAnswer,
)
from mcp_tools_proxy.http.api.explain_routes import ExplainAnswer
from mcp_tools_proxy.http.api.limit_routes import LimitsAnswer
from mcp_tools_proxy.http.api.login_routes import LoginsAnswer
from mcp_tools_proxy.http.api.overview_routes import OverviewAnswer
from mcp_tools_proxy.http.api.preset_routes import ActivePresetAnswer, PresetsAnswer
from mcp_tools_proxy.http.api.server_routes import ServersAnswer
from mcp_tools_proxy.http.api.token_routes import NewToken, TokensAnswer
from mcp_tools_proxy.http.api.upload_statuses import UploadStatus
from mcp_tools_proxy.http.request_headers import ENTRY, FORWARDED_FOR

TOOLS_PATH = "/internal/mcp/tools"
EXECUTE_PATH = "/internal/mcp/execute"
TRIES_PATH = "/internal/mcp/try"

AnswerT = TypeVar("AnswerT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ApiPath(Generic[AnswerT]):
    """A path of the API and its response model."""

    path: str
    answer: type[AnswerT]


OVERVIEW = ApiPath("/internal/mcp/overview", OverviewAnswer)
LIMITS = ApiPath("/internal/mcp/limits", LimitsAnswer)
SERVERS = ApiPath("/internal/mcp/servers", ServersAnswer)
DEFINITIONS = ApiPath("/internal/mcp/definitions", DefinitionsAnswer)
LOGINS = ApiPath("/internal/mcp/logins", LoginsAnswer)
PRESETS = ApiPath("/internal/mcp/presets", PresetsAnswer)
ACTIVE_PRESET = ApiPath("/internal/mcp/presets/active", ActivePresetAnswer)
EXPLAIN = ApiPath("/internal/mcp/explain", ExplainAnswer)
TOKENS = ApiPath("/internal/mcp/tokens", TokensAnswer)
NEW_TOKEN = ApiPath("/internal/mcp/tokens", NewToken)
DOCUMENTS = ApiPath("/internal/documents", DocumentsAnswer)
DOCUMENT = ApiPath("/internal/documents/content", DocumentContent)
FACTS = ApiPath("/internal/documents/facts", ChangedFacts)
UPLOADS = ApiPath("/internal/documents/uploads", UploadStatus)
READERS = ApiPath("/internal/documents/rights", DocumentRights)

Query = Mapping[str, object]
"""Query parameters by name; None, "" and () are omitted, and a list repeats its parameter."""


class ApiRefused(Exception):
    """An error response of the API, with its code and message."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(error.get("code", "INTERNAL_ERROR"))
        self.message = str(error.get("message", "the request failed"))
        self.retryable = error.get("retryable") is True
        details = error.get("details")
        self.details: Mapping[str, Any] = details if isinstance(details, dict) else {}
        super().__init__(self.message)

    @property
    def field(self) -> str:
        """The invalid field of the request; "" for the request as a whole."""
        return self._place.partition(".")[0].partition("[")[0]

    @property
    def sentence(self) -> str:
        """The message as a sentence, without the field's path."""
        return sentence(self.message.removeprefix(f"{self._place}: "))

    @property
    def _place(self) -> str:
        place = self.details.get("field")
        return place if isinstance(place, str) else ""


class SessionEnded(Exception):
    """The session's token became invalid; the user has to sign in again."""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """A response of the API."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        """The parsed JSON body."""
        return from_json(self.body)


class ApiClient:
    """Sends requests to ``routes`` on behalf of one browser request.

    The API receives the client address of the browser and the session's bearer token, but no cookie
    and, except X-Forwarded-For, no header of the browser. Its responses are the same as for other
    clients with that token.
    """

    def __init__(self, routes: Sequence[Route], browser: Request, token: str) -> None:
        self._routes = routes
        self._browser = browser
        self._token = token

    async def get(self, path: str, query: Query | None = None) -> Any:
        """Return the JSON of a response. Raises ApiRefused.

        Also raises for errors with status 200, such as an agent without a profile or a budget of an
        unknown tool.
        """
        found = (await self.send("GET", path, query)).json
        if found.get("status") == "error":
            raise ApiRefused(422, found["error"])
        return found

    async def read(self, wanted: ApiPath[AnswerT], query: Query | None = None) -> AnswerT:
        """Return the validated response. Raises ApiRefused like ``get``."""
        return wanted.answer.model_validate(await self.get(wanted.path, query))

    async def post(self, path: str, body: object) -> Any:
        """Return the JSON of the response to a POST. Raises ApiRefused."""
        return (await self.send("POST", path, body=body)).json

    async def submit(self, wanted: ApiPath[AnswerT], body: object) -> AnswerT:
        """Return the validated response to a POST. Raises ApiRefused."""
        return wanted.answer.model_validate(await self.post(wanted.path, body))

    async def send(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        receive: Receive | None = None,
    ) -> ApiAnswer:
        """Send a request and return its successful response. Raises ApiRefused, SessionEnded.

        ``body`` is sent as JSON; other bodies are read from ``receive``.
        """
        content = b"" if body is None else to_json(body)
        extra = {} if body is None else {"content-type": "application/json"}
        scope = self._scope(method, path, query, {**extra, **(headers or {})})
        collected = _Collected()
        await self._serve(scope, receive or _body(content, self._browser.receive), collected)
        answer = ApiAnswer(collected.status, Headers(raw=collected.headers), collected.body())
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise SessionEnded
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ApiRefused(answer.status, _error_of(answer))
        return answer

    async def stream(self, path: str, query: Query | None, receive: Receive, send: Send) -> None:
        """Stream a response to ``send`` until ``receive`` reports a disconnect."""
        await self._serve(self._scope("GET", path, query, {}), receive, send)

    def _scope(
        self, method: str, path: str, query: Query | None, headers: Mapping[str, str]
    ) -> Scope:
        browser = self._browser.scope
        raw = [
            (b"authorization", b"Bearer " + self._token.encode()),
            *((name.lower().encode(), value.encode()) for name, value in headers.items()),
            *((name, value) for name, value in browser["headers"] if name == FORWARDED_FOR),
        ]
        return {
            "type": "http",
            "asgi": browser.get("asgi", {"version": "3.0"}),
            "http_version": "1.1",
            "method": method,
            "scheme": browser.get("scheme", "http"),
            "path": path,
            "raw_path": quote(path).encode(),
            "root_path": "",
            "query_string": _encoded(query).encode(),
            "headers": raw,
            "client": browser.get("client"),
            "server": browser.get("server"),
            "app": browser.get("app"),
            "state": browser.get("state", {}),
            ENTRY: Entry.CONSOLE,
        }

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises RouteNotFound, for example for an id with a slash in a path."""
        for route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                await route.app({**scope, **found}, receive, send)
                return
        raise RouteNotFound("not found; go back and reload the page")


class _Collected:
    """ASGI ``send`` that collects a response."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [*message.get("headers", ())]
        elif message["type"] == "http.response.body":
            self._chunks.append(message.get("body", b""))

    def body(self) -> bytes:
        return b"".join(self._chunks)


def _body(content: bytes, then: Receive) -> Receive:
    """Return an ASGI ``receive`` with a body; it then waits for the browser's disconnect, which
    ends a call.
    """
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            return await then()
        sent = True
        return {"type": "http.request", "body": content, "more_body": False}

    return receive


def _encoded(query: Query | None) -> str:
    given = {name: value for name, value in (query or {}).items() if value not in (None, "", ())}
    return urlencode(given, doseq=True)


def _error_of(answer: ApiAnswer) -> Mapping[str, Any]:
    try:
        error = answer.json["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


def problems_of(error: ApiRefused, fields: Container[str]) -> Mapping[str, str]:
    """Return error messages by field; "" for the form as a whole.

    Re-raises ``error`` if the operator may not use the page, because no input would help.
    """
    if error.status == HTTPStatus.FORBIDDEN:
        raise error
    if error.code == "AGENT_REQUIRED" and "agent" in fields:
        return {"agent": "Choose an agent."}
    name = "agent" if error.code == "AGENT_NOT_FOUND" else error.field
    return {name: error.sentence} if name in fields else {"": sentence(error.message)}
