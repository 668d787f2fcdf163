from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.support.postgres_databases import Databases, OpenStore, PostgresDatabase
from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run one Redis for all tests of a module."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Run one Redis for a test that kills, pauses or empties it."""
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture
def redis(server: RedisServer) -> Iterator[Redis]:
    """Return a client of ``server``, which is empty."""
    with Redis.from_url(server.url) as redis:
        redis.flushall()
        yield redis


@pytest.fixture
async def postgres(databases: Databases) -> PostgresDatabase:
    """A new database with the schema, and no documents."""
    return await databases.new()


@pytest.fixture
async def opened(postgres: PostgresDatabase) -> AsyncIterator[OpenStore]:
    """A store over it that follows its changes."""
    async with OpenStore(postgres) as made:
        await made.until_current()
        yield made
