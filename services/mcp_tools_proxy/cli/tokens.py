"""The ``tokens`` commands: create, list and revoke bearer tokens.

A token is printed to stdout once, when it is created; the file contains its hash. Failures are one
line on stderr, with exit code 1.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from mcp_tools_proxy.auth.token_format import (
    MAX_ROLES,
    ParsedTokens,
    TokenEntry,
    contradiction_of,
    parse_expiry,
    read_lines,
    token_facts,
)
from mcp_tools_proxy.auth.token_store import UnknownToken, add_token, remove_entry
from mcp_tools_proxy.cli.options import (
    agent_names,
    document_list,
    identifier,
    identifiers,
    operator_rights,
    token_ids,
)
from mcp_tools_proxy.cli.output import (
    AsJson,
    echo,
    folded,
    is_terminal,
    print_json,
    print_table,
    whole,
)
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.wire.text import printable, quote


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
    """Parse operator rights. Raises BadParameter that lists the valid ones."""
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
        "--asserts-users",
        help="For a service: trust the user and roles of each request. Excludes --user and --role.",
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
        help=f"Rights of an operator, separated by commas or repeated: {', '.join(OperatorRight)}.",
    ),
]
_Execute = Annotated[
    bool,
    typer.Option(
        "--execute/--no-execute",
        help="Whether it may make calls. People who approve calls (--may approve) need a token of "
        "their own with --user and --no-execute.",
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

    ``default_path`` returns the default for ``--tokens-file``; it is called when a command runs,
    and may raise ``typer.Exit``.
    """
    app = typer.Typer(
        name="tokens",
        help="Create, list and revoke bearer tokens.\n\n"
        "These commands read no setting but MCP_PROXY_TOKENS_FILE.",
        rich_markup_mode=None,
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
        execute: _Execute = True,
        expires: _Expires = None,
        note: _Note = "",
        as_json: AsJson = False,
        tokens_file: _File = None,
    ) -> None:
        """Create a token, and print it once.

        The file contains only its hash. A token needs a tenant or an operator right.

        With --json: the token, and the fields of tokens list.
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
            executes=execute,
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

        Tokens that expire within 7 days are marked (soon), expired ones (expired). Invalid lines
        are reported on stderr, without changing the exit code.

        If the output is not a terminal, each line has these columns, separated by tabs: id, tenant,
        user, agents, admin or -, created, expires, note, operator rights, roles, users if requests
        assert them, documents, and no if it makes no calls.

        With --json: problems (line, message) and tokens, each with id, tenant_id, user_id, roles,
        asserts_users, agents and documents (null for any), rights, execute, created, expires,
        is_expired, expires_soon and note.
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
    """Read the tokens file; if it is missing, print a line to stderr and return no tokens."""
    with _failures():
        try:
            return read_lines(path.read_bytes())
        except FileNotFoundError:
            echo(f"no tokens yet: {path} does not exist", err=True)
    return ParsedTokens()


def _check_together(principal: Principal) -> None:
    """Check contradicting options. Raises BadParameter."""
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
    """Parse ``--expires``. Raises BadParameter if it is invalid or in the past."""
    try:
        return None if text is None else parse_expiry(text, now)
    except ValueError as error:
        raise typer.BadParameter(f"--expires: {error}") from None


def print_new_token(token: str, entry: TokenEntry, *, as_json: bool) -> None:
    """Print a new token; it cannot be shown again."""
    if as_json:
        print_json({"token": token, **token_facts(entry)})
        return
    echo(token)
    echo(f"Created token {entry.id} (copy it now: it cannot be shown again)", err=True)


def print_tokens(found: ParsedTokens, *, as_json: bool) -> None:
    """Print the tokens of a file, and the problems of its other lines."""
    if as_json:
        problems = [{"line": line, "message": text} for line, text in found.problems.items()]
        print_json({"tokens": list(map(token_facts, found.entries)), "problems": problems})
        return
    if found.entries:
        _print_rows(found.entries, on_terminal=is_terminal())
    for line, text in found.problems.items():
        echo(f"line {line}: {text}", err=True)


def _print_rows(entries: Sequence[TokenEntry], *, on_terminal: bool) -> None:
    """Print a line per token; on a terminal, a paragraph with the values that are set."""
    if not on_terminal:
        print_table(_COLUMNS, [_row(entry, _seconds) for entry in entries])
        return
    width = shutil.get_terminal_size().columns
    for entry in entries:
        token_id, *cells = _row(entry, _minutes)
        names = [str(column.header) for column in _COLUMNS[1:]]
        shown = [
            f"{name} {cell}"
            for name, cell in zip(names, cells, strict=True)
            if cell not in ("-", "") and name != "admin"  # admin is one of its rights
        ]
        echo(_paragraph(token_id, shown, width))


def _paragraph(token_id: str, parts: Sequence[str], width: int) -> str:
    """Return the id and the parts, wrapped at ``width``."""
    indent = " " * (len(token_id) + 2)
    lines = [token_id]
    for part in parts:
        is_first = lines[-1] == token_id
        if not is_first and len(lines[-1]) + 2 + len(part) > width:
            lines.append("")
        lines[-1] += f"  {part}" if lines[-1].strip() else indent + part
        while len(lines[-1]) > width:
            lines[-1], rest = lines[-1][:width], lines[-1][width:]
            lines.append(indent + rest)
    return "\n".join(lines)


_COLUMNS = (
    whole("id"),
    folded("tenant"),
    folded("user"),
    folded("agents"),
    folded("admin"),
    whole("created"),
    whole("expires"),
    folded("note"),
    folded("may"),
    folded("roles"),
    folded("asserts"),
    folded("documents"),
    folded("execute"),
)


def _row(entry: TokenEntry, format_time: Callable[[datetime], str]) -> tuple[str, ...]:
    principal = entry.principal
    cells = (
        entry.id,
        principal.tenant_id or "-",
        principal.user_id or "-",
        "-" if principal.agents is None else ",".join(sorted(principal.agents)),
        "admin" if OperatorRight.PRESETS in principal.rights else "-",
        format_time(entry.created) if entry.created else "-",
        _expiry(entry, format_time),
        entry.note,
        ",".join(sorted(principal.rights)) or "-",
        ",".join(principal.roles) or "-",
        "users" if principal.asserts_users else "-",
        "-" if principal.documents is None else ",".join(sorted(principal.documents)) or "none",
        "-" if principal.executes else "no",
    )
    return tuple(printable(cell) for cell in cells)


def _expiry(entry: TokenEntry, format_time: Callable[[datetime], str]) -> str:
    if entry.expires is None:
        return "never"
    now = datetime.now(UTC)
    mark = " (expired)" if entry.is_expired(now) else ""
    mark = " (soon)" if entry.expires_soon(now) else mark
    return format_time(entry.expires) + mark


def _seconds(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _minutes(moment: datetime) -> str:
    """Format a time for a terminal."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}Z"
