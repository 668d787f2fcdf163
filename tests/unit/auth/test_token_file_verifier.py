"""The tokens of a file that is followed."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier
from mcp_tools_proxy.auth.token_format import new_token, sha256_of
from mcp_tools_proxy.auth.token_store import add_token, remove_entry
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.identity import Principal
from tests.support.bounds import until
from tests.support.captured_logs import capture_logs
from tests.support.file_descriptors import none_left

NOW = datetime(2027, 1, 1, tzinfo=UTC)
ACME = Principal(tenant_id="acme", user_id="u", agents=frozenset({"reader"}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.jsonl"


def make_token(path: Path, *, expires: datetime | None = None) -> tuple[str, str]:
    """Put a token into the file and give it with its id."""
    token, entry = add_token(path, ACME, expires=expires)
    return token, entry.id


async def loaded(path: Path) -> TokenFileVerifier:
    tokens = TokenFileVerifier(path, clock=lambda: NOW)
    await tokens.load()
    return tokens


@asynccontextmanager
async def followed(path: Path) -> AsyncIterator[TokenFileVerifier]:
    tokens = await loaded(path)
    async with anyio.create_task_group() as group:
        group.start_soon(tokens.run)
        yield tokens
        group.cancel_scope.cancel()


async def is_good(tokens: TokenFileVerifier, token: str) -> bool:
    try:
        await tokens.verify(token)
    except Unauthenticated:
        return False
    return True


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


async def test_a_token_stands_for_what_its_line_says(path: Path) -> None:
    token, _ = make_token(path)
    assert await (await loaded(path)).verify(token) == ACME


@pytest.mark.parametrize("spoilt", ["{0}a", "{0:.46}", "{0:.46}!", "x", "", " {0}"])
async def test_another_token_is_refused(path: Path, spoilt: str) -> None:
    token, _ = make_token(path)
    assert not await is_good(await loaded(path), spoilt.format(token))


async def test_a_refusal_says_that_a_token_was_there_and_nothing_of_it(path: Path) -> None:
    token = new_token()
    with pytest.raises(Unauthenticated) as caught:
        await (await loaded(path)).verify(token)
    assert (caught.value.token_refused, token[4:12] in str(caught.value)) == (True, False)


async def test_the_hash_is_no_token(path: Path) -> None:
    token, _ = make_token(path)
    assert not await is_good(await loaded(path), sha256_of(token))


@pytest.mark.parametrize(
    ("expires", "good"),
    [(NOW.replace(year=2026), False), (NOW, False), (NOW.replace(year=2028), True)],
)
async def test_a_token_is_good_until_it_expires(
    path: Path, expires: datetime, *, good: bool
) -> None:
    token, _ = make_token(path, expires=expires)
    tokens = await loaded(path)
    assert await is_good(tokens, token) == good


async def test_a_token_that_is_not_in_the_file_is_not_known(path: Path) -> None:
    make_token(path)
    assert not await is_good(await loaded(path), new_token())


async def test_a_new_token_is_soon_good(path: Path) -> None:
    async with followed(path) as tokens:
        token, _ = make_token(path)
        await until(lambda: tokens.state()["tokens"] == 1)
        assert await is_good(tokens, token)


async def test_a_revoked_token_is_soon_refused(path: Path) -> None:
    token, token_id = make_token(path)
    async with followed(path) as tokens:
        remove_entry(path, token_id)
        await until(lambda: tokens.state()["tokens"] == 0)
        assert not await is_good(tokens, token)


async def test_without_its_file_no_token_is_good(path: Path) -> None:
    token, _ = make_token(path)
    async with followed(path) as tokens:
        os.unlink(path)
        await until(lambda: tokens.state()["status"] == "degraded")
        assert not await is_good(tokens, token)


async def test_a_file_that_cannot_be_read_lets_nobody_in(path: Path) -> None:
    token, _ = make_token(path)
    async with followed(path) as tokens:
        become_a_folder(path)
        await until(lambda: tokens.state()["status"] == "degraded")
        assert not await is_good(tokens, token)


async def test_a_file_that_could_not_be_read_for_a_moment_is_read_again(path: Path) -> None:
    """Whoever holds all connections open must not lock out everybody for good."""
    token, _ = make_token(path)
    async with followed(path) as tokens:
        with none_left():
            os.utime(path)
            await until(lambda: tokens.state()["status"] == "degraded")
        await until(lambda: tokens.state()["status"] == "ok")
        assert await is_good(tokens, token)


async def test_a_half_written_line_leaves_the_others_good(path: Path) -> None:
    first, _ = make_token(path)
    second, _ = make_token(path)
    rewrite(path, lambda content: content[:-20])
    tokens = await loaded(path)
    state = tokens.state()
    assert (state["status"], state["tokens"]) == ("degraded", 1)
    assert (await is_good(tokens, first), await is_good(tokens, second)) == (True, False)


async def test_a_broken_line_is_logged_by_its_number_only(path: Path) -> None:
    make_token(path)
    rewrite(path, lambda _: b'{"id": "t1", "sha256": "hush"}\n')
    with capture_logs() as lines:
        await loaded(path)
    ignored = next(line for line in lines if line["event"] == "tokens.line_ignored")
    assert (ignored["line"], "hush" in str(lines)) == (1, False)


async def test_the_log_has_what_changed_and_no_more(path: Path) -> None:
    await anyio.Path(path).touch()
    with capture_logs() as lines:
        tokens = await loaded(path)
        await tokens.load()
        await anyio.Path(path).unlink()
        await tokens.load()
        await tokens.load()
    events = [line["event"] for line in lines]
    assert events == ["tokens.loaded", "tokens.unreadable", "tokens.loaded"]


async def test_the_state_has_the_first_twenty_problems(path: Path) -> None:
    make_token(path)
    rewrite(path, lambda _: b"{\n" * 25)
    problems = (await loaded(path)).state()["problems"]
    assert problems == [f"line {number}: is not JSON" for number in range(1, 21)]
