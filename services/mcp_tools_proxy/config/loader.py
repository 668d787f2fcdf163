"""Loads mcp.json: validates it, converts it to domain values, and collects warnings.

``load_configuration`` blocks: call it in a thread. InvalidConfig has all problems of a file;
messages never quote secret values.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_tools_proxy.config.auth_entry import server_auth
from mcp_tools_proxy.config.auth_rules import turns_oauth_off
from mcp_tools_proxy.config.checked_configuration import (
    CONFIGURATION,
    Written,
    at_names,
    check_configuration,
    derived_names,
    drop_entries,
    entry_ids,
    name_warnings,
    with_ids,
)
from mcp_tools_proxy.config.entry_rules import (
    READABLE,
    IdentitySupport,
    NetworkSupport,
    StdioSupport,
    has_readable_credentials,
    is_path,
    shared_process,
)
from mcp_tools_proxy.config.field_types import bindings_of
from mcp_tools_proxy.config.json_file import Fault, Location, read_if_there
from mcp_tools_proxy.config.schema import ConfigurationFile
from mcp_tools_proxy.config.server_entry import (
    NETWORK_KEYS,
    STDIO_KEYS,
    DiscoveryCallerEntry,
    ServerEntry,
    prepare_guards,
)
from mcp_tools_proxy.config.unknown_keys import Oddity, unknown_keys, warnings_of
from mcp_tools_proxy.config.variables import (
    not_set,
    plain_braces,
    shown_url,
    unset_variables,
    values_in,
    without_braces,
    without_caller_texts,
)
from mcp_tools_proxy.domain.bindings import ServerBindings
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.domain.configuration import Configuration, InvalidConfig, Problem
from mcp_tools_proxy.domain.networks import Proxies, Proxy
from mcp_tools_proxy.domain.server import (
    DEFAULT_APP_BYTES,
    DEFAULT_BREAKER_PAUSE_S,
    DEFAULT_CALLS_IN_FLIGHT,
    DEFAULT_SESSION_IDLE_S,
    DEFAULT_START_TIMEOUT_S,
    CallerTexts,
    ServerAuth,
    ServerConfig,
    Transport,
)

CONFIGURATION_FILE = "mcp.json"


NO_FILE = Configuration()
"""The object that ``load_configuration`` returns without a mcp.json: compare with ``is``."""


MIN_REFRESH_S = 30.0
"""The shortest interval between two discoveries, in seconds."""


def process_environment() -> Mapping[str, str]:
    """Return a copy of the process's environment, for ``${VAR}``."""
    return dict(os.environ)  # noqa: TID251 - variables of mcp.json are not settings of the gateway


def load_configuration(
    folder: Path,
    environment: Mapping[str, str],
    *,
    call_timeout_s: float,
    max_result_bytes: int,
    identity: IdentitySupport | None = None,
    stdio: StdioSupport | None = None,
    network: NetworkSupport | None = None,
) -> Configuration:
    """Load mcp.json, with its variables replaced; ``NO_FILE`` if the file does not exist.

    The two limits are defaults. ``identity``, ``stdio`` and ``network`` are the features, programs
    and addresses available to entries. ``invalid`` has the problems of servers' entries; all others
    raise InvalidConfig.
    """
    path = folder / CONFIGURATION_FILE
    written: Written | None = read_if_there(path, comments=True)
    if written is None:
        return NO_FILE
    identity, stdio = identity or IdentitySupport(), stdio or StdioSupport()
    network = network or NetworkSupport()
    names = derived_names(path.name, written)
    written = with_ids(written, names)
    try:
        checked = check_configuration(path.name, written, environment, identity, stdio, network)
    except InvalidConfig as error:
        raise InvalidConfig(at_names(error.problems, names)) from error
    good = drop_entries(written, checked.invalid)
    prepare_guards(entry.guards for entry in checked.file.mcp_servers.values())
    several = identity.has_several_tenants()
    warnings = configuration_warnings(
        path.name, checked.file, good, environment, several_tenants=several
    )
    return build_configuration(
        checked.file,
        call_timeout_s=call_timeout_s,
        max_result_bytes=max_result_bytes,
        warnings=(*name_warnings(path.name, names), *at_names(warnings, names)),
        invalid={key: at_names(problems, names) for key, problems in checked.invalid.items()},
        names=names,
        order=entry_ids(written),
        written=good,
        environment=environment,
        jwt_issuer=identity.oauth.jwt_issuer,
        proxies=network.proxies,
        stdio_env=stdio.env,
    )


def build_configuration(
    file: ConfigurationFile,
    *,
    call_timeout_s: float,
    max_result_bytes: int,
    warnings: tuple[Problem, ...],
    invalid: Mapping[str, tuple[Problem, ...]],
    order: Iterable[str],
    written: Mapping[str, Any],
    environment: Mapping[str, str],
    jwt_issuer: str | None,
    proxies: Proxies,
    stdio_env: Mapping[str, str],
    names: Mapping[str, str],
) -> Configuration:
    """Build the configuration; the two limits are defaults.

    ``invalid`` has the problems of entries removed from ``file``, by server id; ``order`` all ids.
    ``written`` is the same file before variables are replaced. ``jwt_issuer`` exchanges callers'
    JWTs; ``proxies`` and ``stdio_env`` are the environment's proxies and all stdio servers'
    variables. ``names`` has the original names of servers with derived ids.
    """
    interval_s = file.capabilities_refresh_interval_seconds
    refresh_interval_s = max(interval_s, MIN_REFRESH_S) if interval_s > 0 else 0.0
    servers = {
        server_id: ServerConfig(
            server_id=server_id,
            transport=entry.effective_transport,
            name=entry.name or names.get(server_id, server_id),
            original_id=names.get(server_id),
            enabled=entry.is_enabled,
            command=entry.command or "",
            args=_plain_args(entry),
            env=_env(entry, stdio_env),
            cwd=entry.cwd if isinstance(entry.cwd, str) else None,
            sandbox=entry.sandbox,
            url=entry.url or "",
            address=_address(entry, written["mcpServers"][server_id], environment),
            secrets=_secrets(
                entry, written["mcpServers"][server_id], environment, stdio_env.values()
            ),
            proxy=_proxy(entry, proxies),
            headers=_plain(entry.headers),
            caller_texts=_caller_texts(entry),
            forward=tuple(dict.fromkeys(entry.forward)),
            assertion=entry.assertion,
            auth=_auth(entry, jwt_issuer),
            call_timeout_s=entry.request_timeout_seconds
            or file.request_timeout_seconds
            or call_timeout_s,
            connect_timeout_s=entry.connect_timeout_seconds or file.capabilities_timeout_seconds,
            start_timeout_s=entry.start_timeout_seconds or DEFAULT_START_TIMEOUT_S,
            refresh_interval_s=refresh_interval_s,
            max_calls_in_flight=entry.max_calls_in_flight or DEFAULT_CALLS_IN_FLIGHT,
            max_calls_in_flight_per_tenant=entry.max_calls_in_flight_per_tenant,
            max_result_bytes=entry.max_result_bytes or max_result_bytes,
            max_app_bytes=entry.max_result_bytes or max(max_result_bytes, DEFAULT_APP_BYTES),
            max_text_bytes=entry.max_text_bytes,
            structured_in_messages=entry.structured_in_messages,
            breaker_failures=entry.breaker_failures or 0,
            breaker_pause_s=entry.breaker_pause_seconds or DEFAULT_BREAKER_PAUSE_S,
            isolation=entry.isolation,
            max_sessions=entry.max_sessions,
            session_idle_s=entry.session_idle_seconds or DEFAULT_SESSION_IDLE_S,
            discovery_caller=_discovery_caller(entry.discovery_caller),
        )
        for server_id, entry in file.mcp_servers.items()
    }
    preset_id = file.default_preset_id or ""
    return Configuration(
        servers=servers,
        default_preset_id=preset_id if preset_id.strip() else None,
        exclude={
            server_id: tuple(entry.exclude)
            for server_id, entry in file.mcp_servers.items()
            if entry.exclude
        },
        bindings={
            server_id: ServerBindings(
                bindings=bindings_of(entry.bind), required=entry.bind_required
            )
            for server_id, entry in file.mcp_servers.items()
            if entry.bind
        },
        guards={
            server_id: entry.guards for server_id, entry in file.mcp_servers.items() if entry.guards
        },
        warnings=warnings,
        invalid=invalid,
        original_ids=names,
        order=tuple(order),
    )


_NAMES_A_PATH = re.compile(
    r"dir|folder|path|root|home|file|base|data|store|work|cwd", re.IGNORECASE
)


_AS_IT_IS = (
    "is the caller's id unchanged, which can be ../another or an absolute path; if the server "
    "uses it as a path, put a folder in front, as in /srv/data/${caller.tenant_id}"
)


_TWO_IN_ONE = (
    "has two parts of the caller in one segment of a path, so tenant a with user bc has the folder "
    "of tenant ab with user c; put a / between them"
)


def risky_texts(entry: ServerEntry) -> Iterator[Fault]:
    """Yield the risky arguments and variables of a stdio server, with the reason."""
    if entry.effective_transport is not Transport.STDIO:
        return
    before: str | CallerTemplate = ""
    for index, text in enumerate(entry.args):
        if isinstance(text, CallerTemplate):
            yield from _risks(("args", index), text, names_path=_is_for_a_path(before))
        before = text
    for name, text in entry.env.items():
        if isinstance(text, CallerTemplate):
            yield from _risks(("env", name), text, names_path=bool(_NAMES_A_PATH.search(name)))


def _is_for_a_path(before: str | CallerTemplate) -> bool:
    """Return whether the argument after ``before`` can be a path.

    An argument without a preceding option usually is a file or folder.
    """
    if isinstance(before, str) and before.startswith("-"):
        return bool(_NAMES_A_PATH.search(before))
    return True


def _risks(place: Location, text: CallerTemplate, *, names_path: bool) -> Iterator[Fault]:
    if names_path and text.is_alone and isinstance(text.parts[0], CallerPart):
        yield place, _AS_IT_IS
    elif not is_path(text) and any(isinstance(it, str) and "/" in it for it in text.parts):
        yield place, _TWO_IN_ONE


def _address(entry: ServerEntry, written: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    if entry.effective_transport is Transport.STDIO:
        return entry.command or ""
    return shown_url(written.get("url") or "", environment)


def _env(entry: ServerEntry, stdio_env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program; those of its entry override the common ones."""
    is_program = entry.effective_transport is Transport.STDIO
    return {**(stdio_env if is_program else {}), **_plain(entry.env)}


def _proxy(entry: ServerEntry, proxies: Proxies) -> Proxy | None:
    is_program = entry.effective_transport is Transport.STDIO
    return None if is_program else proxies.find(entry.url or "", entry.proxy)


def _secrets(
    entry: ServerEntry,
    written: Mapping[str, Any],
    environment: Mapping[str, str],
    stdio_values: Iterable[str],
) -> frozenset[str]:
    """Return the values of variables in a program's entry, because the program can print them."""
    if entry.effective_transport is not Transport.STDIO:
        return frozenset()
    texts = _texts_with_variables(written)
    passed = (value for value in stdio_values if "@" in value)  # a proxy's user and password
    return frozenset(
        (*(value for _, text in texts for value in values_in(text, environment)), *passed)
    )


def _plain_args(entry: ServerEntry) -> tuple[str, ...]:
    plain = tuple(text for text in entry.args if isinstance(text, str))
    return plain if len(plain) == len(entry.args) else ()


def _plain(texts: Mapping[str, str | CallerTemplate]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _templates(texts: Mapping[str, str | CallerTemplate]) -> dict[str, CallerTemplate]:
    return {name: text for name, text in texts.items() if isinstance(text, CallerTemplate)}


def _caller_texts(entry: ServerEntry) -> CallerTexts | None:
    sandbox = entry.sandbox
    texts = CallerTexts(
        args=() if _plain_args(entry) else tuple(entry.args),
        env=_templates(entry.env),
        cwd=entry.cwd if isinstance(entry.cwd, CallerTemplate) else None,
        headers=_templates(entry.headers),
        sandbox=sandbox if sandbox is not None and sandbox.templates else None,
    )
    return None if texts == CallerTexts() else texts


def _auth(entry: ServerEntry, jwt_issuer: str | None) -> ServerAuth | None:
    if entry.auth is None or turns_oauth_off(entry):
        return None
    return server_auth(entry.auth, jwt_issuer=jwt_issuer)


def _discovery_caller(entry: DiscoveryCallerEntry | None) -> Caller | None:
    if entry is None:
        return None
    return Caller(tenant_id=entry.tenant_id, user_id=entry.user_id or "")


def configuration_warnings(
    file_name: str,
    file: ConfigurationFile,
    written: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    several_tenants: bool,
) -> tuple[Problem, ...]:
    """Return the warnings about mcp.json.

    ``several_tenants`` means that callers can belong to several tenants. ``written`` is ``file``
    before validation and replacement of variables.
    """
    oddities: list[Oddity] = [*unknown_keys(CONFIGURATION, written)]
    if 0 < file.capabilities_refresh_interval_seconds < MIN_REFRESH_S:
        message = f"is read as {MIN_REFRESH_S:g}, the minimum; 0 turns it off"
        oddities.append((("capabilitiesRefreshIntervalSeconds",), message))
    for server_id, entry in file.mcp_servers.items():
        as_written = written["mcpServers"][server_id]
        if several_tenants and "isolation" not in as_written:
            oddities += ((("mcpServers", server_id), it) for it in shared_process(entry))
        for place, message in _entry_oddities(entry, as_written, environment):
            oddities.append((("mcpServers", server_id, *place), message))
    return warnings_of(file_name, oddities)


def _entry_oddities(
    entry: ServerEntry, written: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[Oddity]:
    """Yield parts of an entry without effect, or with an unexpected one."""
    yield from _keys_without_effect(entry, written)
    yield from risky_texts(entry)
    yield from _variables_that_stay(written, environment)
    if has_readable_credentials(entry):
        yield ("url",), READABLE
    for place, text in _texts_with_variables(written):
        unset = unset_variables(text, environment)
        if unset:  # only a disabled server reaches this: an enabled one would be invalid
            yield place, f"{not_set(unset)} before you enable the server"


def _keys_without_effect(entry: ServerEntry, written: Mapping[str, Any]) -> Iterator[Oddity]:
    if turns_oauth_off(entry):
        yield ("auth",), "is ignored, because headers set Authorization"
    transport = entry.effective_transport
    foreign = NETWORK_KEYS if transport is Transport.STDIO else STDIO_KEYS
    for key in foreign:
        if written.get(key):
            yield (key,), f"is ignored with the transport {transport.value}"


def _variables_that_stay(
    written: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[Oddity]:
    """Yield the texts that look like a variable but are not replaced."""
    for key in ("command", "cwd"):
        if "${" in without_caller_texts(written.get(key) or ""):
            yield (
                (key,),
                (
                    "contains ${, which is not replaced here; variables work in args, env, headers "
                    "and url"
                ),
            )
    for place, text in _texts_with_variables(written):
        for name in plain_braces(text, environment):
            yield (
                place,
                (f"contains {{{name}}}, which is not replaced; write ${{{name}}} for the variable"),
            )
        for name in without_braces(text, environment):
            yield (
                place,
                (f"contains ${name}, which is not replaced; write ${{{name}}} for the variable"),
            )


def _texts_with_variables(written: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Yield the texts of an entry with support for variables, and their places."""
    for index, text in enumerate(written.get("args", ())):
        yield ("args", index), text
    for key in ("env", "headers"):
        for name, text in written.get(key, {}).items():
            if isinstance(text, str):  # a number cannot contain variables
                yield (key, name), text
    for key in ("url", "proxy"):
        if written.get(key) is not None:
            yield (key,), written[key]
    yield from _texts_of_clients(written.get("auth") or {}, ("auth",))


def _texts_of_clients(
    written: Mapping[str, Any], place: Location
) -> Iterator[tuple[Location, str]]:
    for key in ("clientId", "clientSecret"):
        if written.get(key) is not None:
            yield (*place, key), written[key]
    for key in ("idp", "discovery"):
        if written.get(key):
            yield from _texts_of_clients(written[key], (*place, key))
