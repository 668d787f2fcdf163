"""Reads the forms of pages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.types import Receive

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.web.body import read_body

MAX_FIELDS = 2_000
FORM_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileField:
    """The file of a form: its ``name`` is "" where none was chosen.

    ``receive`` has its content, once, as the body of a request.
    """

    name: str
    receive: Receive


class Form:
    """The fields of a form; a field may be there several times."""

    def __init__(
        self, fields: Sequence[tuple[str, str]] = (), file: FileField | None = None
    ) -> None:
        self.file = file
        self._fields: Mapping[str, list[str]] = {}
        collected: dict[str, list[str]] = {}
        for name, value in fields:
            collected.setdefault(name, []).append(value)
        self._fields = collected

    def text(self, name: str) -> str:
        """Return a field without blanks around it; "" if it is not there."""
        return self.raw(name).strip()

    def raw(self, name: str) -> str:
        """Return a field as it was typed, the last of several; "" if it is not there."""
        return self._fields.get(name, [""])[-1]

    def texts(self, name: str) -> list[str]:
        """Return every value of a field that is not blank."""
        return [value.strip() for value in self._fields.get(name, ()) if value.strip()]

    def lines(self, name: str) -> list[str]:
        """Return the lines of a field, where commas end lines as well, without blank ones.

        Only what a browser makes of the end of a line is one: ids may have other separators.
        """
        parts = re.split("[\r\n,]", self.raw(name))
        return [part.strip() for part in parts if part.strip()]

    def items(self) -> list[tuple[str, str]]:
        """Return the fields with their values, the last of several, in their order."""
        return [(name, values[-1]) for name, values in self._fields.items()]

    def names(self) -> list[str]:
        """Return the names of the fields, in their order."""
        return [*self._fields]


async def read_form(request: Request, max_bytes: int) -> Form:
    """Read a form. Raises PayloadTooLarge, ClientDisconnect, InvalidRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_TYPE:
        raise InvalidRequest("this form was not sent as one; go back, and send it again")
    body = await read_body(request.receive, max_bytes)
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=MAX_FIELDS,
            errors="strict",
        )
    except ValueError:
        raise InvalidRequest("this form cannot be read; go back, and send it again") from None
    return Form(fields)
