"""This process's view of the other worker processes of the service (``serve --workers``)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from inspect import isawaitable
from secrets import token_bytes
from typing import Any

Answer = Callable[[Any], Any]
"""Returns the answer to a question with a value, directly or as an awaitable."""

Ask = Callable[[str, object, float], Awaitable[Sequence[Any]]]
"""Asks the other workers a question with a value; waits so many seconds for their answers."""

ANSWER_S = 0.5
"""Seconds for answers: Kubernetes waits one second for readiness."""

CHANGE_S = 10.0
"""Seconds for a change in all workers, such as another preset."""


HEIR = "heir of "
"""Begins the question that hands down a value of an ended worker."""


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
        started_at: datetime | None = None,
    ) -> None:
        """Initialize; the first worker of a service prints and logs what concerns all."""
        self.number = number
        self.size = size
        self.is_first = is_first
        self.started_at = datetime.now(UTC) if started_at is None else started_at
        """The start of the service."""
        self.is_settled: Callable[[], bool] = lambda: True
        """Whether each downstream server was tried once, so that calls need not wait for them."""
        self.is_retiring = False
        """Whether this worker ends while the service runs on."""
        self.console_key = token_bytes(32) if console_key is None else console_key
        """The key of the console's one-time addresses and guests, the same in all workers."""
        self.leads = asyncio.Event()
        """Set in the one worker that holds the connector's link."""
        self._answers: dict[str, Answer] = {}
        self._last_values: dict[str, Callable[[], object]] = {}
        self._keep: Callable[[str, object], None] | None = None
        self._ask: Ask | None = None
        if size == 1:
            self.leads.set()

    def __repr__(self) -> str:
        return f"<WorkerGroup {self.number} of {self.size}>"

    def connect(self, ask: Ask, keep: Callable[[str, object], None]) -> None:
        """Set the functions that ask the others, and keep a value for the heir of this one."""
        self._ask, self._keep = ask, keep

    def on(self, question: str, answer: Answer) -> None:
        """Answer a question of other workers with ``answer``."""
        self._answers[question] = answer

    async def ask(
        self, question: str, value: object = None, wait_s: float = ANSWER_S
    ) -> Sequence[Any]:
        """Return the answers of the other workers; those that fail or are late are left out."""
        return () if self._ask is None else await self._ask(question, value, wait_s)

    async def tell(self, change: str, value: object = None) -> None:
        """Have the other workers make a change, and wait for them; each logs its failure."""
        if self._ask is not None:
            await self._ask(change, value, CHANGE_S)

    def hand_down(self, name: str, last: Callable[[], object], take_over: Answer) -> None:
        """When this worker ends, have another one call its ``take_over`` with the ``last`` value.

        Of a worker that is killed, that is the value it has kept.
        """
        self._last_values[name] = last
        self._answers[f"{HEIR}{name}"] = take_over

    def keep(self, name: str, value: object) -> None:
        """Keep a value to hand down."""
        if self._keep is not None:
            self._keep(name, value)

    def leave(self) -> None:
        """Keep the last values before this worker ends."""
        for name, last in self._last_values.items():
            self.keep(name, last())

    async def answer(self, question: str, value: object) -> object:
        """Return the answer of this worker. Raises KeyError for an unknown question."""
        found = self._answers[question](value)
        return await found if isawaitable(found) else found
