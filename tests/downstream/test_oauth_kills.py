import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from itertools import groupby
from pathlib import Path

from tests.support import killed_renewal
from tests.support.oauth_issuer import running_issuer
from tests.support.program_launch import CLEAN, ROOT

MOST_STEPS = 200


async def test_a_renewal_killed_at_any_step_sends_no_refresh_token_twice(
    tmp_path: Path,
) -> None:
    async with running_issuer(expires_in=None) as issuer:
        issuer.refreshes = {f"refresh-{number}": "" for number in range(1, MOST_STEPS)}
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", killed_renewal.__name__, tmp_path / "logins", issuer.url),
            stdout=PIPE,
            cwd=ROOT,
            env=CLEAN,
        )
        printed, _ = await program.communicate()
    assert program.returncode == 0
    attempts = [json.loads(line) for line in printed.splitlines()]
    killed = [it["found"] for it in attempts if it["was_killed"]]
    # before the token was sent, while it was sent, and after the response was written
    assert [found for found, _ in groupby(killed)] == ["token", "needs a person", "token"]
    assert attempts[-1] == {"was_killed": False, "found": "token"}
    sent = [it["refresh_token"] for it in issuer.token_requests]
    assert len(sent) == len(set(sent))
    lost = {f"refresh-{number}" for number, it in enumerate(attempts, 1) if it["found"] != "token"}
    assert lost & {*sent}  # killed between the issuer's answer and the write
    assert lost - {*sent}  # killed just before the token was sent
