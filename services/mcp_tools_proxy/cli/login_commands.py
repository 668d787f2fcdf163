"""The commands login, logins and logout.

A sign-in waits on this machine for the browser's redirect (RFC 8252 §7.3).
"""

import asyncio
import webbrowser
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, urlsplit

import typer

from mcp_tools_proxy.cli.options import identifier
from mcp_tools_proxy.cli.output import AsJson, counted, echo, fail, print_json, print_table, whole
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.logins import EndedLogin, LoginFacts
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.wire.text import printable

if TYPE_CHECKING:
    from mcp_tools_proxy.app.open_sign_in import OpenedSignIn


WAIT_S = 600.0
"""Seconds that a user has to sign in."""

_MINUTES = f"{WAIT_S / 60:g}"

LoadSettings = Callable[[], Settings]

_Server = Annotated[str, typer.Argument(metavar="SERVER", help="The server's id in mcp.json.")]
_Tenant = Annotated[
    str | None,
    typer.Option("--tenant", callback=identifier, help="The tenant that the login belongs to."),
]
_User = Annotated[
    str | None,
    typer.Option("--user", callback=identifier, help="The user that the login belongs to."),
]
_Scopes = Annotated[
    list[str] | None,
    typer.Option("--scope", help="An additional scope to request; repeatable."),
]
_Device = Annotated[
    bool, typer.Option("--device", help="Sign in on another device with a short code.")
]
_Reseal = Annotated[
    bool,
    typer.Option(
        "--reseal",
        help="First re-encrypt logins of older keys with the first key of "
        "MCP_PROXY_CREDENTIALS_KEY.",
    ),
]
_ConfigDir = Annotated[
    Path | None,
    typer.Option(
        exists=True, file_okay=False, help="The configuration folder [MCP_PROXY_CONFIG_DIR]."
    ),
]


def add_login_commands(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add the commands."""

    @app.command("login")
    def login(
        server: _Server,
        tenant: _Tenant = None,
        user: _User = None,
        scopes: _Scopes = None,
        device: _Device = False,
        config_dir: _ConfigDir = None,
    ) -> None:
        """Sign in to a server, in a browser on this machine or on another device.

        Stores the login, encrypted with MCP_PROXY_CREDENTIALS_KEY. Needs the gateway's settings,
        but no running gateway; one that runs uses the login at once.

        Exits with 1 if the sign-in failed or took more than ten minutes.
        """
        settings = _with_key(load_settings())
        folder = config_dir or settings.config_dir
        _run(_login(settings, folder, server, tenant, user, tuple(scopes or ()), device=device))

    @app.command("logins")
    def logins(tenant: _Tenant = None, reseal: _Reseal = False, as_json: AsJson = False) -> None:
        """List the logins to servers, of the deployment or of a tenant.

        With --reseal the exit code is 1 if no key can decrypt one of the logins.

        With --json: logins, each with server_id, for, tenant_id, user_id, signed_in_at and key
        (first or older). If no key can decrypt a login, key and signed_in_at are null.
        """
        settings = _with_key(load_settings())
        found = _run(_list_logins(settings, tenant or "", reseal=reseal))
        _print_logins(found, tenant, as_json=as_json)
        if reseal:
            _check_all_opened(found)

    @app.command("logout")
    def logout(
        server: _Server,
        tenant: _Tenant = None,
        user: _User = None,
        config_dir: _ConfigDir = None,
    ) -> None:
        """Revoke a login to a server and delete it.

        Exits with 1 if there is no such login. A failed revocation is reported on stderr.
        """
        settings = _with_key(load_settings())
        folder = config_dir or settings.config_dir
        _print_ended(server, tenant, _run(_logout(settings, folder, server, tenant, user)))


def _with_key(settings: Settings) -> Settings:
    if not settings.credentials_key:
        fail(
            "MCP_PROXY_CREDENTIALS_KEY: is required to store logins; use the gateway's key, or "
            "make one with: openssl rand -hex 32"
        )
    return settings


async def _login(
    settings: Settings,
    folder: Path,
    server: str,
    tenant: str | None,
    user: str | None,
    scopes: tuple[str, ...],
    *,
    device: bool,
) -> None:
    from mcp_tools_proxy.app.open_sign_in import open_sign_in  # noqa: PLC0415 - its libraries are slow

    async with open_sign_in(settings, folder, server, tenant_id=tenant, user_id=user) as opened:
        if beyond := await opened.sign_in.beyond_entry(opened.owner):
            options = " ".join(f"--scope {printable(it)}" for it in beyond)
            echo(
                f"{server} requested scopes that its entry does not allow, so calls that need them "
                f"will fail: add them to scopes of the entry, then sign in with {options}",
                err=True,
            )
        if device:
            await _by_device(opened, scopes)
        else:
            await _by_browser(opened, scopes)
    echo(f"signed in to {server}")


async def _by_browser(opened: "OpenedSignIn", scopes: tuple[str, ...]) -> None:
    async with listening(opened.redirect_uri) as redirect:
        pending = await opened.sign_in.begin(
            opened.owner, opened.caller, redirect_uri=redirect.uri, scopes=scopes
        )
        issuer, resource = pending.request.issuer, pending.request.resource
        echo(
            f"Sign in at {issuer} to connect {resource}:\n{pending.url}\n"
            f"Waiting {_MINUTES} minutes for the browser to come back to {redirect.uri}; "
            "without a browser on this machine use --device"
        )
        redirect.expect(pending.state)
        await asyncio.to_thread(webbrowser.open, pending.url)
        answer = await redirect.wait(WAIT_S)
        await opened.sign_in.finish(pending, answer)


async def _by_device(opened: "OpenedSignIn", scopes: tuple[str, ...]) -> None:
    request, device = await opened.sign_in.begin_device(opened.owner, opened.caller, scopes=scopes)
    echo(
        f"Sign in at {request.issuer} to connect {request.resource}:\n"
        f"Open {device.verification_uri} on any device, and enter {device.user_code}"
    )
    await opened.sign_in.finish_device(request, device)


async def _list_logins(settings: Settings, tenant_id: str, *, reseal: bool) -> Sequence[LoginFacts]:
    from mcp_tools_proxy.app.open_sign_in import list_logins  # noqa: PLC0415 - its libraries are slow

    return await list_logins(settings, tenant_id, reseal=reseal)


async def _logout(
    settings: Settings, folder: Path, server: str, tenant: str | None, user: str | None
) -> EndedLogin | None:
    from mcp_tools_proxy.app.open_sign_in import open_sign_in  # noqa: PLC0415 - its libraries are slow

    async with open_sign_in(settings, folder, server, tenant_id=tenant, user_id=user) as opened:
        return await opened.sign_in.sign_out(opened.owner, opened.caller)


def _print_ended(server: str, tenant: str | None, ended: EndedLogin | None) -> None:
    if ended is None:
        listed = f" --tenant {tenant}" if tenant else ""
        fail(
            f"no such login to {server}; list the logins with: mcp-tools-proxy logins{listed}",
            1,
        )
    echo(f"signed out of {server}")
    if ended.not_revoked is not None:
        echo(
            "mcp-tools-proxy: the login was removed here, but not revoked at its issuer: "
            f"{ended.not_revoked}; revoke it there, or wait until its tokens expire",
            err=True,
        )


def _print_logins(logins: Sequence[LoginFacts], tenant: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"logins": [{**it.shown, "key": _key_of(it)} for it in logins]})
    elif logins:
        columns = [whole(it) for it in ("server", "for", "tenant", "user", "signed in", "key")]
        print_table(columns, [list(_cells(login)) for login in logins])
    else:
        owner = "the deployment; --tenant lists those of a tenant" if tenant is None else tenant
        echo(f"no logins of {owner}", err=True)


def _check_all_opened(logins: Sequence[LoginFacts]) -> None:
    closed = sum(login.signed_in_at is None for login in logins)
    if closed:
        fail(
            f"{counted(closed, 'login')} could not be re-encrypted without the right key: sign "
            "in again, or remove it with logout",
            1,
        )


def _key_of(login: LoginFacts) -> str | None:
    """Return which key encrypts a login; None if no key decrypts it."""
    if login.signed_in_at is None:
        return None
    return "first" if login.is_of_first_key else "older"


def _cells(login: LoginFacts) -> tuple[str, ...]:
    owner = login.owner
    known = login.signed_in_time or "cannot be decrypted"
    key = _key_of(login) or "-"
    return owner.server_id, owner.login_for.value, owner.tenant_id, owner.user_id, known, key


def _run(command: Coroutine[Any, Any, Any]) -> Any:
    """Run a command; print failures as one line on stderr."""
    from mcp_tools_proxy.app.open_sign_in import FAILURES, NoSignIn  # noqa: PLC0415 - slow libraries

    try:
        return asyncio.run(command)
    except NoSignIn as error:
        fail(str(error))
    except TimeoutError:
        fail(f"the sign-in was not completed within {_MINUTES} minutes", 1)
    except ProxyError as error:
        fail(error.reason or error.message, 1)
    except OSError as error:
        fail(f"cannot listen on the address for the browser: {error.strerror}", 1)
    except FAILURES as error:
        fail(str(error), 1)


PATH = "/oauth/callback"

MAX_HEAD_BYTES = 16 * 1024
READ_S = 10.0
"""Seconds for a browser to send its request."""

_PAGE = (
    "<!doctype html><meta charset=utf-8><title>MCP Tools Proxy</title>"
    "<p>{text}</p><p>You can close this window.</p>"
)
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n"
    "Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\n"
    "Connection: close\r\n"
)


class LoopbackRedirect:
    """Receives the redirect of a sign-in at ``uri``."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._path = urlsplit(uri).path
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._state = ""
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    def expect(self, state: str) -> None:
        """Accept only a response with this state; call it before opening the browser."""
        self._state = state

    async def wait(self, timeout_s: float) -> Mapping[str, str]:
        """Return the query of the redirect. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            return await self._answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request of a browser."""
        self._open[writer] = asyncio.current_task()
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(READ_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._take(head.split(b"\r\n", 1)[0].decode("latin-1"))
                page = _PAGE.format(text=text).encode()
                answer = f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(page)}\r\n\r\n"
                writer.write(answer.encode() + page)
                await writer.drain()
        finally:
            del self._open[writer]
            writer.close()

    async def end(self) -> None:
        """Close all connections; browsers open some without using them."""
        serving = [task for task in self._open.values() if task is not None]
        for writer in self._open:
            writer.transport.abort()
        if serving:
            await asyncio.wait(serving)

    def _take(self, request_line: str) -> tuple[str, str]:
        """Save the query of a request, and return the status and text of the response."""
        method, _, rest = request_line.partition(" ")
        try:
            target = urlsplit(rest.partition(" ")[0])
        except ValueError:
            return "400 Bad Request", "Invalid address."
        if method != "GET" or target.path != self._path:
            return "404 Not Found", "Not found."
        answer = dict(parse_qsl(target.query))
        if not self._state or answer.get("state") != self._state or self._answer.done():
            return "400 Bad Request", "This link belongs to a different or finished sign-in."
        self._answer.set_result(answer)
        return "200 OK", "Sign-in finished; the terminal shows the result."


@asynccontextmanager
async def listening(uri: str | None) -> AsyncIterator[LoopbackRedirect]:
    """Yield a redirect that listens at ``uri`` or on a free port.

    Raises OSError if the port is in use.
    """
    wanted = urlsplit(uri or f"http://127.0.0.1:0{PATH}")
    redirect: LoopbackRedirect | None = None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if redirect is not None:
            await redirect.serve(reader, writer)

    server = await asyncio.start_server(
        serve, wanted.hostname, wanted.port or 0, limit=MAX_HEAD_BYTES
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        redirect = LoopbackRedirect(uri or f"http://127.0.0.1:{port}{PATH}")
        try:
            yield redirect
        finally:
            await redirect.end()
