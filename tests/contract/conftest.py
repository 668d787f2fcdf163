from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.support.document_stores import FilledFolder, FilledStore
from tests.support.postgres_databases import (
    Databases,
    FilledPostgres,
    OpenStore,
    PostgresDatabase,
)
from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a Redis that a test may kill, pause or empty."""
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture
def redis(server: RedisServer) -> Iterator[Redis]:
    """Return a client of ``server``, emptied."""
    with Redis.from_url(server.url) as redis:
        redis.flushall()
        yield redis


@pytest.fixture
async def postgres(databases: Databases) -> PostgresDatabase:
    """A new database with the schema and without documents."""
    return await databases.new()


@pytest.fixture
async def opened(postgres: PostgresDatabase) -> AsyncIterator[OpenStore]:
    """A store over it that follows its changes."""
    async with OpenStore(postgres) as made:
        await made.until_current()
        yield made


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[FilledFolder]:
    made = FilledFolder(tmp_path)
    yield made
    await made.close()


@pytest.fixture(params=["folder", "postgres"])
async def filled_store(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> AsyncIterator[FilledStore]:
    if request.param == "folder":
        folder = FilledFolder(tmp_path)
        yield folder
        await folder.close()
    else:
        async with OpenStore(await databases.new()) as opened:
            await opened.until_current()
            yield FilledPostgres(opened)
