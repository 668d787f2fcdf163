from mcp_tools_proxy.ratelimit.redis_storage import open_redis
from tests.support.tables import each_row


@each_row(
    ("url", "name"),
    [
        ("redis://host", "redis://host:6379/0"),
        ("rediss://user:hush@host:1234/2", "rediss://host:1234/2"),
        ("redis://:hush@host/1?protocol=3", "redis://host:6379/1"),
    ],
)
async def test_the_name_of_a_storage_does_not_contain_secrets(url: str, name: str) -> None:
    opened = open_redis(url)
    assert opened.name == name
    await opened.disconnect()
