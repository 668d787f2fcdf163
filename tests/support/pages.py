import re
from pathlib import Path

Blocks = list[tuple[str, str]]

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> Blocks:
    return [(kind, text) for _, kind, text in _BLOCK.findall(page.read_text(encoding="utf-8"))]
