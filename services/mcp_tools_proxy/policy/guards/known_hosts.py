"""Hosts of links, and the known hosts of an entry, its definitions and a call."""

import re
from collections.abc import Iterable, Iterator, Mapping
from html import unescape

from mcp_tools_proxy.domain.server import ServerConfig

_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_LEFT_OUT = re.compile(r"[\t\n\r]")
_IN_FRONT = "".join(map(chr, range(0x21)))
"""Characters that browsers ignore in addresses, and before them."""

_SCHEMES = r"https?|wss?|ftps?|sftp|smb|file"
_AUTHORITY = re.compile(rf"(?i)(?:(?:{_SCHEMES}):[/\\]*|[/\\]{{2,}})([^/\\?#]+)")
_HOST = re.compile(r"(?:[^@]*@)*(\[[^\]]*\]|[^:]*)")
_URL = re.compile(rf"(?i)\b(?:{_SCHEMES})://([^\s/\\?#\"'<>()]{{1,300}})")


def host_of(target: str) -> str:
    r"""Return the host of a link's target; empty for one without a host.

    Read as in browsers, including ``https:\\host``, ``https:/host``, entities and Markdown escapes.
    """
    if is_odd(target):
        target = _LEFT_OUT.sub("", _ESCAPED.sub(r"\1", unescape(target))).lstrip(_IN_FRONT)
    found = _AUTHORITY.match(target)
    return "" if found is None else _host(found[1])


def is_odd(target: str) -> bool:
    """Return whether the part before a target's host is escaped or written as entities."""
    head = target[: len("https://")]
    return "&" in head or "\\" in head


def _host(authority: str) -> str:
    found = _HOST.match(authority)
    return "" if found is None else found[1].rstrip(".").lower()


def hosts_in(text: str) -> Iterator[str]:
    """Yield the hosts of the URLs in a text."""
    for match in _URL.finditer(text):
        yield _host(match[1])


def hosts_of_server(config: ServerConfig) -> frozenset[str]:
    """Return the hosts that a server's entry names: its URL, and those in ``args`` and ``env``."""
    texts = config.caller_texts
    args: Iterable[object] = config.args if texts is None else (*config.args, *texts.args)
    named = (config.url, *args, *config.env.values())
    return frozenset(host for text in named if isinstance(text, str) for host in hosts_in(text))


def hosts_of_arguments(value: object) -> frozenset[str]:
    """Return the hosts of the URLs in a call's arguments, which the caller knows."""
    return frozenset(host for text in _strings(value) for host in hosts_in(text))


def _strings(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
