"""The commands login, logins and logout."""

import asyncio
import webbrowser
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from mcp_tools_proxy.cli.options import identifier
from mcp_tools_proxy.cli.output import AsJson, counted, echo, print_json, print_table, whole
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.logins import EndedLogin, LoginFacts
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.wire.text import printable

if TYPE_CHECKING:
    from mcp_tools_proxy.app.open_sign_in import OpenedSignIn

WAIT_S = 600.0
"""Seconds that a person has to sign in."""

_MINUTES = f"{WAIT_S / 60:g}"

USAGE_ERROR = 2

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
        help="Re-encrypt them with the first key of MCP_PROXY_CREDENTIALS_KEY before listing them.",
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

        Stores the login, encrypted with MCP_PROXY_CREDENTIALS_KEY. A running gateway uses it at
        once.
        """
        settings = _with_key(load_settings())
        folder = config_dir or settings.config_dir
        _run(_login(settings, folder, server, tenant, user, tuple(scopes or ()), device=device))

    @app.command("logins")
    def logins(tenant: _Tenant = None, reseal: _Reseal = False, as_json: AsJson = False) -> None:
        """List the logins to servers, of the deployment or of a tenant."""
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
        """Revoke a login to a server and delete it."""
        settings = _with_key(load_settings())
        folder = config_dir or settings.config_dir
        _print_ended(server, tenant, _run(_logout(settings, folder, server, tenant, user)))


def _with_key(settings: Settings) -> Settings:
    if not settings.credentials_key:
        _fail(
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
    from mcp_tools_proxy.cli.loopback_redirect import listening  # noqa: PLC0415

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
        _fail(
            f"no such login to {server}; list the logins with: mcp-tools-proxy logins{listed}",
            code=1,
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
        _fail(
            f"{counted(closed, 'login')} could not be re-encrypted without the right key: sign "
            "in again, or remove it with logout",
            code=1,
        )


def _key_of(login: LoginFacts) -> str | None:
    """Return by which of the keys a login is sealed; None for none of them."""
    if login.signed_in_at is None:
        return None
    return "first" if login.is_of_first_key else "older"


def _cells(login: LoginFacts) -> tuple[str, ...]:
    owner = login.owner
    known = login.signed_in_time or "cannot be decrypted"
    key = _key_of(login) or "-"
    return owner.server_id, owner.login_for.value, owner.tenant_id, owner.user_id, known, key


def _run(command: Coroutine[Any, Any, Any]) -> Any:
    """Run a command; what it cannot do is one line on stderr."""
    from mcp_tools_proxy.app.open_sign_in import FAILURES, NoSignIn  # noqa: PLC0415 - slow libraries

    try:
        return asyncio.run(command)
    except NoSignIn as error:
        _fail(str(error))
    except TimeoutError:
        _fail(f"the sign-in was not completed within {_MINUTES} minutes", code=1)
    except ProxyError as error:
        _fail(error.reason or error.message, code=1)
    except OSError as error:
        _fail(f"cannot listen on the address for the browser: {error.strerror}", code=1)
    except FAILURES as error:
        _fail(str(error), code=1)


def _fail(message: str, *, code: int = USAGE_ERROR) -> NoReturn:
    echo(f"mcp-tools-proxy: {message}", err=True)
    raise typer.Exit(code)
