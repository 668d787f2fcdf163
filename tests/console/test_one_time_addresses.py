"""One-time addresses: sign-in for users of the local terminal if tokens cannot sign in."""

import secrets
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_tools_proxy.console.one_time_address import (
    CODE_S,
    OneTimeAddresses,
    key_file,
    new_address,
)
from mcp_tools_proxy.storage.logins.sign_in_store import MemorySignIns
from tests.support.captured_logs import capture_logs
from tests.support.console_browser import ConsoleBrowser, ConsoleService, Html, running_console

BEGIN = "/console/begin"
COOKIE = "mcp-console"
HOST = "127.0.0.1"


class Clock:
    """Seconds since 1970, set by the test."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def addresses_in(folder: Path, clock: Clock) -> OneTimeAddresses:
    """Return the addresses of a gateway that has just started."""
    return OneTimeAddresses(folder, secrets.token_bytes(32), MemorySignIns(clock), clock)


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[ConsoleService]:
    async with running_console(admin_token=None, cache_dir=str(tmp_path / "own")) as started:
        yield started


def opened(console: ConsoleService) -> str:
    return code_of(console.service.app.state.console.open_address(HOST, 8082))


def code_of(address: str | None) -> str:
    assert address is not None
    assert address.startswith(f"http://{HOST}:8082{BEGIN}?code=")
    return address.partition("code=")[2]


async def test_the_button_signs_in_once_with_four_rights(console: ConsoleService) -> None:
    code = opened(console)
    browser = console.browser
    page = await browser.open(BEGIN, code=code)
    assert page.form(BEGIN).fields == {"code": code}
    assert COOKIE not in browser.cookies, "looking uses nothing up"
    response = await browser.post(BEGIN, {"code": code})
    assert (response.status_code, COOKIE in browser.cookies) == (303, True)
    shown = await browser.open("/console/servers")
    parts = {link for link in shown.links if link.startswith("/console")}
    assert {"/console/calls", "/console/documents", "/console/try"} <= parts
    assert "/console/tokens" not in parts
    other = ConsoleBrowser(browser.http)
    again = await other.post(BEGIN, {"code": code})
    assert (again.status_code, COOKIE in other.cookies) == (401, False)


@pytest.mark.parametrize("code", ["", "x", "A" * 96, "A" * 10_000, "ключ", "="])
async def test_a_code_from_elsewhere_is_invalid(console: ConsoleService, code: str) -> None:
    opened(console)
    response = await console.browser.post(BEGIN, {"code": code})
    assert (response.status_code, COOKIE in console.browser.cookies) == (401, False)
    refused = await console.browser.get(f"{BEGIN}?code=x")
    assert (refused.status_code, "has expired or was already used" in Html(refused.text).text) == (
        403,
        True,
    )


async def test_no_log_contains_the_address(console: ConsoleService) -> None:
    with capture_logs() as logs:
        code = opened(console)
        await console.browser.get(f"{BEGIN}?code={code}")
        await console.browser.post(BEGIN, {"code": code})
        await console.browser.post(BEGIN, {"code": code})
    assert code not in str(logs)


async def test_a_code_expires_after_ten_minutes(tmp_path: Path) -> None:
    clock = Clock()
    addresses = addresses_in(tmp_path / "own", clock)
    code = code_of(addresses.open(HOST, 8082))
    clock.now += CODE_S - 1
    assert await addresses.is_valid(code)
    clock.now += 1
    assert (await addresses.is_valid(code), await addresses.redeem(code)) == (False, False)


async def test_the_gateway_accepts_a_code_of_the_command(tmp_path: Path) -> None:
    folder, clock = tmp_path / "own", Clock()
    addresses = addresses_in(folder, clock)
    addresses.open(HOST, 8082)
    mode = stat.S_IMODE(key_file(folder, 8082).stat().st_mode)
    assert (mode, stat.S_IMODE(folder.stat().st_mode)) == (0o600, 0o700)
    code = code_of(new_address(folder, HOST, 8082, clock))
    assert (await addresses.redeem(code), await addresses.redeem(code)) == (True, False)
    assert not await addresses.is_valid(code)
    addresses.close()
    assert new_address(folder, HOST, 8082, clock) is None


async def test_a_code_of_an_earlier_start_is_invalid(tmp_path: Path) -> None:
    folder, clock = tmp_path / "own", Clock()
    earlier = code_of(addresses_in(folder, clock).open(HOST, 8082))
    later = addresses_in(folder, clock)
    later.open(HOST, 8082)
    assert not await later.redeem(earlier)


async def test_a_process_that_stops_late_keeps_the_key_of_the_next_one(tmp_path: Path) -> None:
    folder, clock = tmp_path / "own", Clock()
    earlier, later = addresses_in(folder, clock), addresses_in(folder, clock)
    earlier.open(HOST, 8082)
    later.open(HOST, 8082)
    earlier.close()
    assert await later.redeem(code_of(new_address(folder, HOST, 8082, clock)))
    later.close()
    later.close()
    assert not key_file(folder, 8082).exists()


def test_a_planted_key_is_not_used(tmp_path: Path) -> None:
    folder, clock = tmp_path / "own", Clock()
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with capture_logs() as logs:
        addresses_in(folder, clock).open(HOST, 8082)
    assert [line["event"] for line in logs] == ["console.key_not_kept"]
    assert not key_file(folder, 8082).exists()
