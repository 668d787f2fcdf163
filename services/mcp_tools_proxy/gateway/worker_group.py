"""This process's view of the other worker processes of the service (``serve --workers``)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from secrets import token_bytes
from typing import Any

Answer = Callable[[Any], Any]
"""Returns the answer to a question with a value, directly or as an awaitable."""

Ask = Callable[[str, object], Awaitable[Sequence[Any]]]


class WorkerGroup:
    """Asks the other workers, and answers them. A service of one process has no others.

    ``number`` is that of this worker among those that run, from 1.
    """

    def __init__(
        self,
        number: int = 1,
        size: int = 1,
        *,
        is_first: bool = True,
        console_key: bytes | None = None,
    ) -> None:
        """Initialize; the first worker of a service prints and logs what concerns all."""
        self.number = number
        self.size = size
        self.is_first = is_first
        self.is_retiring = False
        """Whether this worker ends while the service runs on."""
        self.console_key = token_bytes(32) if console_key is None else console_key
        """The key of the console's one-time addresses, the same in all workers."""
        self.leads = asyncio.Event()
        """Set in the one worker that holds the connector's link."""
        self._answers: dict[str, Answer] = {}
        self._ask: Ask | None = None
        if size == 1:
            self.leads.set()

    def __repr__(self) -> str:
        return f"<WorkerGroup {self.number} of {self.size}>"

    def connect(self, ask: Ask) -> None:
        """Set the function that asks the others."""
        self._ask = ask

    def on(self, question: str, answer: Answer) -> None:
        """Answer a question of other workers with ``answer``."""
        self._answers[question] = answer

    async def ask(self, question: str, value: object = None) -> Sequence[Any]:
        """Return the answers of the other workers; those that fail or are late are left out."""
        return () if self._ask is None else await self._ask(question, value)

    async def answer(self, question: str, value: object) -> object:
        """Return the answer of this worker. Raises KeyError for an unknown question."""
        found = self._answers[question](value)
        return await found if isawaitable(found) else found
