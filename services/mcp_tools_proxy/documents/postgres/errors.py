"""What may go wrong with a database, in one line for an operator."""

from mcp_tools_proxy.wire.text import printable

_LONGEST = 300


class DatabaseProblem(Exception):
    """The database cannot be used as it is; one line that says what to do."""


class WrongRole(DatabaseProblem):
    """The role of the gateway may more than it should, or less than it needs."""


def one_line_of(error: BaseException) -> str:
    """Return the text of an exception as one line; its kind where it has none."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, TimeoutError):
        text = "the database did not answer in time"
    return printable(text)[:_LONGEST]
