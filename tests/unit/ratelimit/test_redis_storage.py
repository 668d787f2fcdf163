import pytest

from mcp_tools_proxy.ratelimit.redis_storage import open_redis
from tests.support.tables import each_row


@each_row(
    ("url", "name"),
    [
        ("redis://host", "redis://host:6379/0"),
        ("rediss://user:hush@host:1234/2", "rediss://host:1234/2"),
        ("redis://:hush@host/1?protocol=3", "redis://host:6379/1"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock?db=0"),
        ("unix://user:hush@/run/redis.sock?password=hush&db=2", "unix:///run/redis.sock?db=2"),
    ],
)
async def test_the_name_of_a_storage_does_not_contain_secrets(url: str, name: str) -> None:
    opened = open_redis(url)
    assert opened.name == name
    await opened.disconnect()


@each_row(
    "url",
    [
        "unix://",
        "unix:///",
        "unix://redis.sock",
        "unix://run/hush.sock",
        "unix://:hush/x@/run/redis.sock",
        "unix://:6379/hush@/run/redis.sock",
        "unix:///:hush@run/redis.sock",
        "unix:///run/redis.sock?db=hush",
        "unix:///run/redis.sock?db=-1",
        "unix:///run/redis.sock?hush=1",
    ],
)
def test_an_invalid_socket_is_refused_without_showing_the_url(url: str) -> None:
    with pytest.raises(ValueError, match="MCP_PROXY_RATE_LIMIT_STORAGE_URL: ") as raised:
        open_redis(url)
    assert "hush" not in str(raised.value)
