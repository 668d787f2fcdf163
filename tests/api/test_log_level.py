import logging
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.telemetry.logging import NOISY_LIBRARIES
from tests.api.document_operator import ADMIN, Operator, operated, outcome
from tests.support.service import running
from tests.support.tokens import bearer, file_token, token_settings

PATH = "/internal/mcp/log-level"
UNKNOWN = "mtp_" + "x" * 43


@pytest.fixture(autouse=True)
def own_levels() -> Iterator[None]:
    """Restore the process's loggers."""
    loggers = [logging.getLogger(name) for name in ("", *NOISY_LIBRARIES)]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


async def put(operator: Operator, **body: Any) -> Any:
    return await operator.service.http.put(PATH, json=body, headers=bearer(ADMIN))


async def test_the_initial_level_comes_from_the_settings() -> None:
    async with operated(log_level="warning") as operator:
        shown = await operator.send("GET", PATH, None)
    assert (shown.status_code, shown.json()) == (200, {"level": "warning", "default": "warning"})


async def test_a_change_is_returned_and_shown() -> None:
    async with operated() as operator:
        changed = await put(operator, level="debug")
        shown = await operator.send("GET", PATH, None)
    assert changed.json() == shown.json() == {"level": "debug", "default": "info"}


async def test_a_temporary_change_has_the_remaining_seconds() -> None:
    async with operated() as operator:
        changed = await put(operator, level="debug", for_s=3600)
    assert 0 < changed.json()["for_s"] <= 3600


async def test_the_level_of_the_settings_returns_at_the_end() -> None:
    async with operated(log_level="error") as operator:
        await put(operator, level="info")
    assert logging.getLogger().level == logging.ERROR


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"level": "loud"},
        {"level": "DEBUG"},
        {"level": None},
        {"level": "debug", "for_s": 0},
        {"level": "debug", "for_s": -1},
        {"level": "debug", "for_s": "long"},
    ],
)
async def test_an_invalid_value_is_refused_and_changes_nothing(body: dict[str, Any]) -> None:
    async with operated() as operator:
        refused = await put(operator, **body)
        shown = await operator.send("GET", PATH, None)
    assert outcome(refused) == (422, "INVALID_REQUEST")
    assert shown.json() == {"level": "info", "default": "info"}


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_changing_the_level_needs_the_right_for_all_tenants(method: str) -> None:
    tokens = {
        "good": file_token(tenant=None, may=[OperatorRight.CONFIG]),
        "of a tenant": file_token(may=[OperatorRight.CONFIG]),
        "other rights": file_token(tenant=None, may={*OperatorRight} - {OperatorRight.CONFIG}),
        "unknown": UNKNOWN,
    }
    async with running(**token_settings()) as service:
        answers = {
            name: outcome(
                await service.http.request(
                    method, PATH, json={"level": "debug"}, headers=bearer(token)
                )
            )
            for name, token in tokens.items()
        }
        level = service.gateway.log_level.current
    assert answers == {
        "good": (200, None),
        "of a tenant": (403, "FORBIDDEN"),
        "other rights": (403, "FORBIDDEN"),
        "unknown": (401, "UNAUTHENTICATED"),
    }
    assert level == ("debug" if method == "PUT" else "info")


async def test_without_tokens_the_right_is_not_granted_even_on_loopback() -> None:
    async with running() as service:
        refused = await service.http.put(PATH, json={"level": "debug"})
        level = service.gateway.log_level.current
    assert (outcome(refused), level) == ((403, "FORBIDDEN"), "info")
