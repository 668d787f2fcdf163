"""Servers "one" and "two" with the same tools, prompts and resources."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import Service, running


@asynccontextmanager
async def one_and_two(only_two: Json, *, era: str, **preset: Any) -> AsyncIterator[Service]:
    """Run the service with both; two also lists ``only_two``."""
    async with (
        running_raw(name="first", era=era) as one,
        running_raw(name="second", era=era, extra=only_two) as two,
    ):
        config = Config(
            servers={"one": one.entry, "two": two.entry}, presets=[make_preset(**preset)]
        )
        async with running(config=config) as service:
            yield service
