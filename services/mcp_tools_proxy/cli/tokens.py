"""The ``tokens`` commands: create bearer tokens, list them, revoke them.

A token is printed once, on stdout, when it is created; the file has its hash. Failures are one line
on stderr, with exit code 1.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from mcp_tools_proxy.auth.token_format import (
    MAX_ROLES,
    ParsedTokens,
    contradiction_of,
    parse_expiry,
    read_lines,
)
from mcp_tools_proxy.auth.token_store import UnknownToken, add_token, remove_entry
from mcp_tools_proxy.cli.completions import agent_names, operator_rights, token_ids
from mcp_tools_proxy.cli.options import document_list, identifier, identifiers
from mcp_tools_proxy.cli.output import AsJson, echo
from mcp_tools_proxy.cli.token_list import print_new_token, print_tokens
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.wire.text import quote


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # the input was not in the terminal's encoding
        raise typer.BadParameter("it must be UTF-8") from None
    return value


def _roles(values: list[str] | None) -> list[str] | None:
    """Check the roles of a token. Raises BadParameter."""
    if len(values or ()) > MAX_ROLES:
        raise typer.BadParameter(f"a token has at most {MAX_ROLES} roles")
    return identifiers(values)


def _rights(values: list[str] | None) -> list[str] | None:
    """Check an option that lists operator rights. Raises BadParameter naming those there are."""
    words = [word.strip() for value in values or () for word in value.split(",")]
    for word in words:
        if word not in {*OperatorRight}:
            raise typer.BadParameter(
                f"{quote(word)} is not a right; the rights are {', '.join(OperatorRight)}"
            )
    return words


_Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant", callback=identifier, help="The tenant of the token; optional for operators."
    ),
]
_User = Annotated[
    str | None,
    typer.Option(
        "--user",
        callback=identifier,
        help="The user of the token. By default each request names the user.",
    ),
]
_Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        callback=_roles,
        help="A role of the user. May be repeated. By default none.",
    ),
]
_AssertsUsers = Annotated[
    bool,
    typer.Option(
        "--asserts-users", help="For a service: trust the user and roles of each request."
    ),
]
_Agents = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        callback=identifiers,
        autocompletion=agent_names,
        help="An agent that it may act for. May be repeated. By default unrestricted.",
    ),
]
_Documents = Annotated[
    list[str] | None,
    typer.Option(
        "--document",
        callback=document_list,
        help="A document that it may use. May be repeated. By default all.",
    ),
]
_Admin = Annotated[
    bool, typer.Option("--admin", help="Short for --may presets (may switch presets).")
]
_May = Annotated[
    list[str] | None,
    typer.Option(
        "--may",
        callback=_rights,
        autocompletion=operator_rights,
        help=f"Rights of an operator, separated by commas: {', '.join(OperatorRight)}.",
    ),
]
_Expires = Annotated[
    str | None,
    typer.Option(
        "--expires",
        help="When it expires: hours, days or weeks from now (12h, 90d, 4w), or a date and time in "
        "ISO 8601 (2027-01-31T00:00Z). By default never.",
    ),
]
_Note = Annotated[str, typer.Option("--note", callback=_text, help="A label to recognise it by.")]
_File = Annotated[
    Path | None,
    typer.Option("--tokens-file", help="The tokens file; by default MCP_PROXY_TOKENS_FILE."),
]
_Id = Annotated[
    str, typer.Argument(metavar="ID", autocompletion=token_ids, help="The token's id, as listed.")
]


def tokens_app(default_path: Callable[[], Path | None]) -> typer.Typer:
    """Build the ``tokens`` sub-command.

    ``default_path`` returns the file for a command without ``--tokens-file``; it is called only
    when a command runs, and may raise ``typer.Exit``.
    """
    app = typer.Typer(
        name="tokens", help="Create, list and revoke bearer tokens.", rich_markup_mode=None
    )

    @app.command("create")
    def create(
        tenant: _Tenant = None,
        user: _User = None,
        roles: _Roles = None,
        asserts_users: _AssertsUsers = False,
        agents: _Agents = None,
        documents: _Documents = None,
        admin: _Admin = False,
        may: _May = None,
        expires: _Expires = None,
        note: _Note = "",
        as_json: AsJson = False,
        tokens_file: _File = None,
    ) -> None:
        """Create a token, and print it once.

        The file contains only its hash.
        """
        rights = {OperatorRight(word) for word in may or ()}
        if admin:
            rights.add(OperatorRight.PRESETS)
        principal = Principal(
            tenant_id=tenant,
            user_id=user,
            roles=tuple(roles or ()),
            asserts_users=asserts_users,
            agents=frozenset(agents) if agents else None,
            documents=frozenset(documents) if documents else None,
            rights=frozenset(rights),
        )
        _check_together(principal)
        now = datetime.now(UTC).replace(microsecond=0)
        until = _parse_expiry(expires, now)
        with _failures():
            path = _path(tokens_file, default_path)
            token, entry = add_token(path, principal, created=now, expires=until, note=note)
        print_new_token(token, entry, as_json=as_json)

    @app.command("list")
    def list_tokens(as_json: AsJson = False, tokens_file: _File = None) -> None:
        """Show the tokens of the file, without their secrets.

        If the output is not a terminal, each line has these columns, separated by tabs: id, tenant,
        user, agents, admin, created, expires, note, operator rights, roles, whether requests assert
        users, and documents.
        """
        print_tokens(_read(_path(tokens_file, default_path)), as_json=as_json)

    @app.command("revoke")
    def revoke(token_id: _Id, tokens_file: _File = None) -> None:
        """Revoke a token.

        A running gateway refuses it within a second.
        """
        with _failures():
            remove_entry(_path(tokens_file, default_path), token_id)

    return app


def _path(option: Path | None, default_path: Callable[[], Path | None]) -> Path:
    path = option or default_path()
    if path is None:
        raise typer.BadParameter("name the file: --tokens-file, or MCP_PROXY_TOKENS_FILE")
    return path


def _read(path: Path) -> ParsedTokens:
    """Read the tokens file; that there is none yet is a line on stderr, and no tokens."""
    with _failures():
        try:
            return read_lines(path.read_bytes())
        except FileNotFoundError:
            echo(f"no tokens yet: {path} does not exist", err=True)
    return ParsedTokens()


def _check_together(principal: Principal) -> None:
    """Check options that concern each other. Raises BadParameter."""
    match contradiction_of(principal):
        case "tenant":
            raise typer.BadParameter("--tenant is required, except for operators (--may)")
        case "asserts_users":
            raise typer.BadParameter(
                "--asserts-users: each request sets user and roles; leave out --user and --role"
            )


@contextmanager
def _failures() -> Iterator[None]:
    """Convert errors of the tokens file to one line and exit code 1."""
    try:
        yield
    except UnknownToken as error:
        echo(f"no token has the id {quote(str(error))}; see tokens list", err=True)
    except OSError as error:
        echo(f"{error.filename}: {error.strerror}", err=True)
    else:
        return
    raise typer.Exit(1)


def _parse_expiry(text: str | None, now: datetime) -> datetime | None:
    """Parse ``--expires``. Raises BadParameter for an invalid time or one in the past."""
    try:
        return None if text is None else parse_expiry(text, now)
    except ValueError as error:
        raise typer.BadParameter(f"--expires: {error}") from None
