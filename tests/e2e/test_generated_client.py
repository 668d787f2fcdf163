"""The page on generating a client: its command and its program work."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.bounds import BOUND_S
from tests.support.generated_client import generate
from tests.support.plain_http import NO_TLS
from tests.support.program import started
from tests.support.source_files import ROOT

PAGE = (ROOT / "docs/how-to/generate-a-client.md").read_text(encoding="utf-8")
PRINTED = "http://127.0.0.1:8082"


def block(language: str, words: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if words in text]
    return str(found)


@pytest.mark.e2e
def test_the_printed_program_works_with_the_client_of_the_printed_command(
    tmp_path: Path,
) -> None:
    (command,) = [
        line for line in block("console", "--url").splitlines() if line.endswith("--meta none")
    ]
    program = tmp_path / "program.py"
    with started(tmp_path) as gateway:
        address = f"http://127.0.0.1:{gateway.port}"
        program.write_text(block("python", "execute.sync").replace(PRINTED, address))
        # the generator waits 5 s for the document, which its first request builds
        httpx.get(f"{address}/openapi.json", timeout=BOUND_S, verify=NO_TLS).raise_for_status()
        generate(shlex.split(command.replace(PRINTED, address))[2:], tmp_path)
        done = subprocess.run(  # noqa: S603 - the program of our page
            [sys.executable, program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    read, refused = done.stdout.splitlines()
    assert read
    assert refused.startswith("There is no such document: ")
