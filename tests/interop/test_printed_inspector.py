import shlex
import subprocess
from pathlib import Path

from tests.interop.conformance_suite import node22
from tests.interop.inspector import ALONE, INSPECTOR
from tests.support.bounds import BOUND_S
from tests.support.pages import blocks_of
from tests.support.printed_examples import ROOT, link_root, without_varying_parts
from tests.support.program import started

BLOCKS = blocks_of(ROOT / "docs/tutorials/mcp-clients.md")


def test_the_tutorial_shows_the_inspectors_output(tmp_path: Path) -> None:
    (at,) = (number for number, (_, text) in enumerate(BLOCKS) if "npx" in text)
    command = BLOCKS[at][1].replace("\\\n", " ")
    words = shlex.split(command.removeprefix("$ npx @modelcontextprotocol/inspector"))
    link_root(tmp_path)
    with started(tmp_path, {"MCP_PROXY_CONFIG_DIR": "examples/config"}) as program:
        program.wait_for_server()
        done = subprocess.run(  # noqa: S603 - a client that the lock pins
            [node22(), INSPECTOR, *(it.replace("8092", str(program.port)) for it in words)],
            cwd=tmp_path,
            env=ALONE,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=True,
        )
    shown = BLOCKS[at + 1][1].strip()
    assert without_varying_parts(done.stdout.strip()) == without_varying_parts(shown)
