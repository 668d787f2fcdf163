"""Clients that are programs: they receive an entry and two calls, and print their results."""

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.mcp_server.clients.client_report import Json, request
from tests.support.bounds import BOUND_S
from tests.support.mcp_servers.server_programs import ROOT


async def by_program(command: Sequence[str | Path], entry: Mapping[str, Any]) -> Json:
    """Use the gateway through a program whose arguments are an entry and the calls, as JSON."""
    seen: Json = json.loads(await output_of([*command, json.dumps(entry), request()]))
    return seen


async def output_of(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> bytes:
    """Run a program that must succeed, and return its output."""
    program = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=PIPE, stderr=PIPE
    )
    printed, stderr = await asyncio.wait_for(program.communicate(), BOUND_S)
    assert program.returncode == 0, stderr.decode()
    return printed


MCP1_PYTHON = ROOT / ".venv-mcp1/bin/python"
"""Created by ``make test``."""
