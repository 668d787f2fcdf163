"""Writes the generated parts of ``reference/cli.md`` from the commands and their help.

``make docs`` runs this; a test fails while the page differs from the output. A part is between a
marker such as ``<!-- command: serve -->`` and ``<!-- end -->``.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from typer.core import TyperCommand, TyperGroup

from docs.field_docstrings import field_docstrings
from mcp_tools_proxy.cli import check_facts
from mcp_tools_proxy.cli.main import EXAMPLES, PROGRAM, build_program

PAGE = Path(__file__).parent / "reference/cli.md"

Command = TyperCommand | TyperGroup

_MARKED = re.compile(r"(<!-- (command|keys): (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_CODE = re.compile(
    r"(?<![\w`/.*-])(--[a-z][a-z-]*|MCP_PROXY_[A-Z_]*[A-Z*]|[a-z_]+=\S*[^\s.,;:]"
    r"|(?:[a-z]+\.)+(?:jsonl?|[a-z]{4,})|\.env\b|[a-z]+(?:_[a-z]+)+)"
)
_EXTRA = re.compile(r"(.*?)  \[([^\[]*)\]", re.DOTALL)


def written(page: str) -> str:
    """Return the page with each generated part. Raises ValueError if a command has no marker."""
    program = build_program()
    commands = {name: it for name, it in program.commands.items() if isinstance(it, Command)}
    marked = [found[3] for found in _MARKED.finditer(page) if found[2] == "command"]
    if sorted(marked) != sorted(commands):
        raise ValueError(f"not marked once: {sorted(commands.keys() ^ set(marked)) or marked}")

    def part(found: re.Match[str]) -> str:
        kind, name = found[2], found[3]
        lines = _section(name, commands[name]) if kind == "command" else _keys(name)
        text = "\n".join(lines)
        return f"{found[1]}\n{text}\n{found[4]}"

    return _MARKED.sub(part, page)


def _section(path: str, command: Command) -> Iterator[str]:
    """Yield the lines of a command and of those below it."""
    yield f"{'#' * (2 + path.count(' '))} {path}\n"
    for paragraph in (command.help or "").split("\n\n"):
        yield f"{_markdown(paragraph)}\n"
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            if isinstance(below, Command):
                yield from _section(f"{path} {name}", below)
        return
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context)).replace("{", "").replace("}", "")
    examples = (it for it in EXAMPLES[path] if it != path)
    yield "```console"
    yield f"$ {PROGRAM} {path} {usage}".replace("...", "…")
    yield from (f"$ {PROGRAM} {example}" for example in examples)
    yield "```\n"
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    rows = [_row(*record) for record in records if record and record[0] != "--help"]
    if rows:
        yield _table(("argument or option", "default", "meaning"), rows)


def _row(names: str, text: str) -> Sequence[str]:
    """Return the cells of an argument or option, whose help ends with ``[default: …; range]``."""
    found = _EXTRA.fullmatch(text)
    meaning, extra = (found[1], found[2].split("; ")) if found else (text, [])
    default = "–"
    for it in extra:
        if it.startswith("default: "):
            default = f"`{it.removeprefix('default: ')}`"
        elif it == "required":
            default = it
        else:  # such as 0<=x<=65535, or x>=0
            least, _, most = it.partition("<=x<=")
            meaning += f" {least} to {most}." if most else f" {it.replace('x>=', '≥ ')}."
    return f"`{names}`", default, _markdown(meaning)


def _keys(name: str) -> Iterator[str]:
    """Yield the table of the fields of a type in ``check_facts``."""
    rows = [(f"`{key}`", meaning) for key, meaning in field_docstrings(check_facts, name)]
    yield _table(("key", "value"), rows)


def _markdown(text: str) -> str:
    """Return a text of a help as Markdown, with names as code."""
    shown = " ".join(text.replace("\b", "").split())
    return _CODE.sub(r"`\1`", shown).replace("* ", "\\* ")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([it.replace("|", "\\|") for it in r] for r in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
