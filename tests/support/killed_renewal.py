"""A program that renews a login at an issuer and is killed at each step in turn.

Started as ``python -m tests.support.killed_renewal FOLDER ISSUER``. Each attempt is a fork whose
login has its own refresh token: refresh-1, refresh-2 … Afterwards the login is used as after a
restart, and a line is printed: whether the attempt was killed, and whether a token is available or
a sign-in required.
"""

import asyncio
import itertools
import json
import sys
from pathlib import Path

from mcp_tools_proxy.downstream.oauth.login_renewal import LoginNeeded, StoredLogins
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthWeb
from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from tests.support.killed_login_writer import attempts
from tests.support.renewed_logins import CLIENT, discovered_at, login_at
from tests.support.stored_logins import ANA, SEALER

NOW = 1000.0


def main(folder: Path, issuer: str) -> None:
    numbers = itertools.count(1)

    async def sign_in() -> None:
        login = login_at(issuer, expires_at=NOW, refresh_token=f"refresh-{next(numbers)}")
        await FileLogins(folder).put(ANA, login.binding, SEALER.seal(login))

    async def renew() -> None:
        await renewed(folder, issuer)

    for was_killed in attempts(folder, sign_in, renew, events=["socket.connect"]):
        print(json.dumps({"was_killed": was_killed, "found": asyncio.run(found(folder, issuer))}))  # noqa: T201


async def renewed(folder: Path, issuer: str) -> None:
    """Renew the login; its token is sent over a new connection, which is a step as well."""
    discovering, web = OAuthWeb(), OAuthWeb()
    try:
        known = await discovered_at(discovering, issuer)
        logins = StoredLogins(web, FileLogins(folder), SEALER, now=lambda: NOW)
        stored = await logins.find(ANA)
        assert stored is not None
        await logins.token(stored, known, CLIENT)
    finally:
        await discovering.close()
        await web.close()


async def found(folder: Path, issuer: str) -> str:
    """Return the result of a gateway started afterwards."""
    try:
        await renewed(folder, issuer)
    except LoginNeeded:
        return "needs a person"
    return "token"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
