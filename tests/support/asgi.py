from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.support.service import Service

Message = dict[str, Any]


async def post_to_app(
    service: Service,
    path: str,
    receive: Callable[[], Awaitable[Message]],
    headers: Mapping[str, str] | None = None,
) -> list[Message]:
    """POST the messages that ``receive`` returns; return the sent messages."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [
            (name.encode(), value.encode())
            for name, value in {"host": "localhost", **(headers or {})}.items()
        ],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("gateway", 80),
    }
    await service.app(scope, receive, send)  # type: ignore[arg-type]
    return sent
