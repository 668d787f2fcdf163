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
    """Add a token to the file; return it and its id."""
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


async def is_valid(tokens: TokenFileVerifier, token: str) -> bool:
    try:
        await tokens.verify(token)
    except Unauthenticated:
        return False
    return True


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def replace_with_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


async def test_a_token_has_the_identity_of_its_line(path: Path) -> None:
    token, _ = make_token(path)
    assert await (await loaded(path)).verify(token) == ACME


@pytest.mark.parametrize("altered", ["{0}a", "{0:.46}", "{0:.46}!", "x", "", " {0}"])
async def test_an_altered_token_is_refused(path: Path, altered: str) -> None:
    token, _ = make_token(path)
    assert not await is_valid(await loaded(path), altered.format(token))


async def test_a_refusal_does_not_contain_the_token(path: Path) -> None:
    token = new_token()
    with pytest.raises(Unauthenticated) as caught:
        await (await loaded(path)).verify(token)
    assert (caught.value.token_refused, token[4:12] in str(caught.value)) == (True, False)


async def test_the_hash_is_not_accepted_as_a_token(path: Path) -> None:
    token, _ = make_token(path)
    assert not await is_valid(await loaded(path), sha256_of(token))


@pytest.mark.parametrize(
    ("expires", "good"),
    [(NOW.replace(year=2026), False), (NOW, False), (NOW.replace(year=2028), True)],
)
async def test_a_token_is_valid_until_it_expires(
    path: Path, expires: datetime, *, good: bool
) -> None:
    token, _ = make_token(path, expires=expires)
    tokens = await loaded(path)
    assert await is_valid(tokens, token) == good


async def test_a_token_that_is_not_in_the_file_is_unknown(path: Path) -> None:
    make_token(path)
    assert not await is_valid(await loaded(path), new_token())


async def test_a_new_token_is_accepted_within_seconds(path: Path) -> None:
    async with followed(path) as tokens:
        token, _ = make_token(path)
        await until(lambda: tokens.state()["tokens"] == 1)
        assert await is_valid(tokens, token)


async def test_a_revoked_token_is_refused_within_seconds(path: Path) -> None:
    token, token_id = make_token(path)
    async with followed(path) as tokens:
        remove_entry(path, token_id)
        await until(lambda: tokens.state()["tokens"] == 0)
        assert not await is_valid(tokens, token)


async def test_without_the_file_every_token_is_refused(path: Path) -> None:
    token, _ = make_token(path)
    async with followed(path) as tokens:
        os.unlink(path)
        await until(lambda: tokens.state()["status"] == "degraded")
        assert not await is_valid(tokens, token)


async def test_with_an_unreadable_file_every_token_is_refused(path: Path) -> None:
    token, _ = make_token(path)
    async with followed(path) as tokens:
        replace_with_folder(path)
        await until(lambda: tokens.state()["status"] == "degraded")
        assert not await is_valid(tokens, token)


async def test_reading_is_retried_after_file_descriptors_ran_out(path: Path) -> None:
    """Otherwise a client that holds all connections open could lock out all callers."""
    token, _ = make_token(path)
    async with followed(path) as tokens:
        with none_left():
            os.utime(path)
            await until(lambda: tokens.state()["status"] == "degraded")
        await until(lambda: tokens.state()["status"] == "ok")
        assert await is_valid(tokens, token)


async def test_a_half_written_line_does_not_affect_other_tokens(path: Path) -> None:
    first, _ = make_token(path)
    second, _ = make_token(path)
    rewrite(path, lambda content: content[:-20])
    tokens = await loaded(path)
    state = tokens.state()
    assert (state["status"], state["tokens"]) == ("degraded", 1)
    assert (await is_valid(tokens, first), await is_valid(tokens, second)) == (True, False)


async def test_the_log_names_only_the_number_of_a_broken_line(path: Path) -> None:
    make_token(path)
    rewrite(path, lambda _: b'{"id": "t1", "sha256": "hush"}\n')
    with capture_logs() as lines:
        await loaded(path)
    ignored = next(line for line in lines if line["event"] == "tokens.line_ignored")
    assert (ignored["line"], "hush" in str(lines)) == (1, False)


async def test_only_changes_are_logged(path: Path) -> None:
    await anyio.Path(path).touch()
    with capture_logs() as lines:
        tokens = await loaded(path)
        await tokens.load()
        await anyio.Path(path).unlink()
        await tokens.load()
        await tokens.load()
    events = [line["event"] for line in lines]
    assert events == ["tokens.loaded", "tokens.unreadable", "tokens.loaded"]


async def test_the_state_lists_the_first_twenty_problems(path: Path) -> None:
    make_token(path)
    rewrite(path, lambda _: b"{\n" * 25)
    problems = (await loaded(path)).state()["problems"]
    assert problems == [f"line {number}: is not JSON" for number in range(1, 21)]
