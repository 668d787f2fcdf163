"""Whether a call was sent to a server: noted where that happens, read where calls are counted."""

from contextvars import ContextVar


class Sending:
    """What is noted of one call; tasks that a call begins share it."""

    __slots__ = ("was_sent",)

    def __init__(self) -> None:
        self.was_sent = False


_CURRENT: ContextVar[Sending | None] = ContextVar("sending", default=None)


def begin_sending() -> Sending:
    """Begin to note what is sent for the call of this task."""
    sending = Sending()
    _CURRENT.set(sending)
    return sending


def note_sent() -> None:
    """Note that a request of the present call goes to its server."""
    sending = _CURRENT.get()
    if sending is not None:
        sending.was_sent = True
