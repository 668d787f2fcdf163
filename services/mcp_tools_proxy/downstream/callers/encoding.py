"""A caller's value as one value at its place: in a path, a header, a variable, an argument.

Beside other text in a variable or an argument, as in ``--root=/srv/${caller.tenant_id}``, a value
is one segment of a path as well.

A tenant or user may be called anything: ``../globex``, a line break and a header, ``--force``. Each
encoding is injective, so that two ids never give one value. Text in Unicode's composed form and in
its decomposed form are two ids, and stay two.
"""

from urllib.parse import quote_from_bytes

from mcp_tools_proxy.domain.caller_template import Encode

_PLAIN_IN_SEGMENT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.")
_PLAIN_IN_HEADER = "!#$&'()*+-./:<=>?@[]^_`{|}~"
"""Beside letters and digits. A comma would make two values of a header, a semicolon a parameter."""

_OPTION_STARTS = ("-", "@")
"""What begins an option, or with many programs the name of a file with options."""


def encode_segment(value: str) -> str:
    """Encode a value as one segment of a path: ``a_b/c`` is ``a__b_2fc``.

    ASCII letters, digits, ``-`` and dots stand for themselves, but for a dot in front; ``_`` is
    ``__``, and every other byte of UTF-8 is ``_`` and two hexadecimal digits.
    """
    encoded = "".join(map(_in_segment, value))
    return f"_2e{encoded[1:]}" if encoded.startswith(".") else encoded


def encode_header(value: str) -> str:
    """Percent-encode all but visible ASCII, and ``%``, ``,``, ``;``, ``"`` and the backslash."""
    return quote_from_bytes(value.encode("utf-8", "surrogatepass"), safe=_PLAIN_IN_HEADER)


def encode_variable(value: str) -> str:
    """Percent-encode ``%`` and what is not printable: line breaks, NUL, other control characters.

    Text in other scripts stays as it is.
    """
    return "".join(map(_printable, value))


def encode_argument(value: str) -> str:
    """Encode as ``encode_variable``, and a ``-`` or ``@`` in front: no value becomes an option."""
    encoded = encode_variable(value)
    if encoded.startswith(_OPTION_STARTS):
        return f"%{ord(encoded[0]):02X}{encoded[1:]}"
    return encoded


def encode_within_text(encode: Encode) -> Encode:
    """Return ``encode`` for a value beside other text: no value leaves its segment of a path.

    ``/``, the backslash, and a value of dots only are percent-encoded. ``..`` beside ``/srv/`` was
    the folder of all tenants, and ``../globex`` that of another.
    """
    return lambda value: _no_path(encode(value))


def _no_path(encoded: str) -> str:
    if not encoded.strip("."):
        return "%2E" * len(encoded)
    return encoded.replace("/", "%2F").replace("\\", "%5C")


def _in_segment(character: str) -> str:
    if character in _PLAIN_IN_SEGMENT:
        return character
    if character == "_":
        return "__"
    return "".join(f"_{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _printable(character: str) -> str:
    if character.isprintable() and character != "%":
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
