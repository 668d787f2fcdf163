"""What is shown of tokens: rows of a table, or JSON; never a secret or its hash."""

import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from mcp_tools_proxy.auth.token_format import ParsedTokens, TokenEntry, token_facts
from mcp_tools_proxy.cli.output import echo, folded, is_terminal, print_json, print_table, whole
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.wire.text import printable


def print_new_token(token: str, entry: TokenEntry, *, as_json: bool) -> None:
    """Print a token that was made, this once."""
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
    """Print the tokens: a line each, or on a terminal a paragraph with what they have."""
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
    """Return the parts behind the id, in lines of at most ``width`` where they can be broken."""
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
    """Format a time for a person."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}Z"
