"""Services in this process that are the workers of one service."""

import pickle
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mcp_tools_proxy.gateway.worker_group import WorkerGroup


def joined(size: int) -> Sequence[WorkerGroup]:
    """Return the groups of several workers, which ask each other as over the supervisor."""
    groups = [WorkerGroup(number, size) for number in range(1, size + 1)]
    for group in groups:
        group.connect(_asking([it for it in groups if it is not group]), lambda *_: None)
    return groups


def _asking(others: Sequence[WorkerGroup]) -> Any:
    async def ask(question: str, value: object, _: float) -> Sequence[Any]:
        sent = pickle.dumps(value)
        answers = []
        for other in others:
            with suppress(KeyError):  # it has not been built
                answer = await other.answer(question, pickle.loads(sent))  # noqa: S301 - own object
                answers.append(pickle.loads(pickle.dumps(answer)))  # noqa: S301 - as above
        return answers

    return ask
