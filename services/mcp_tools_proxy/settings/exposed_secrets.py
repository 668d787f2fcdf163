"""Refuses sample secrets and weak ones where other machines can reach the gateway.

The documentation publishes the sample secrets. In a trial that was opened to the network they were
enough to read documents and to act as its operator.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import SecretStr

from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.wire.identifiers import is_loopback

SAMPLES = frozenset(
    {
        *("for-local-trial-only", "for-local-trial-only-set-your-own-key"),
        *("s3cret", "secret", "password", "changeme", "demo"),
    }
)
"""The secrets that Compose, the documentation and the examples print."""

MIN_CHARS = 8
MIN_DIFFERENT_CHARS = 6

_COMPOSE_NAMES = frozenset({"gateway"})
"""The name of the gateway in the network of Compose, which only its containers know."""

_OF_OTHERS = frozenset({"remote_token", "embeddings_api_key", "signin_client_secret"})
"""Secrets that another service issues, as long as it likes them."""

_IN_COMPOSE = {
    "rate_limit_storage_url": "REDIS_PASSWORD",
    "state_url": "REDIS_PASSWORD",
}


def exposure_of(
    allowed_hosts: tuple[str, ...], public_url: str | None, gateway_address: str | None
) -> str | None:
    """Return which setting says that other machines reach the gateway, None for none."""
    for host in allowed_hosts:
        if not _is_local(_host_of(f"//{host}")):
            return f"{variable('allowed_hosts')} names more than this machine"
    if public_url is not None and not _is_local(_host_of(public_url)):
        return f"{variable('public_url')} is not on loopback"
    if gateway_address is not None and not is_loopback(gateway_address.strip("[]")):
        return "GATEWAY_ADDRESS is not a loopback address"
    return None


def exposure_of_listener(host: str, allowed_hosts: tuple[str, ...]) -> str | None:
    """Return why other machines reach a gateway that listens on ``host``, None if they do not.

    Beyond loopback and without ``allowed_hosts`` requests may be sent to any host name. That is for
    the server alone: commands in a container have the host of the image, too.
    """
    if allowed_hosts or is_loopback(host):
        return None
    return f"{variable('host')} is not on loopback, and {variable('allowed_hosts')} is unset"


def exposed_secret_problems(values: Mapping[str, object], exposure: str) -> Iterator[str]:
    """Yield a problem for each setting with a sample secret or a weak one."""
    for name, value in values.items():
        for secret in value if isinstance(value, tuple) else (value,):
            if isinstance(secret, SecretStr) and (fault := _fault_of(name, secret)):
                compose = _IN_COMPOSE.get(name)
                place = "" if compose is None else f" (in Compose: {compose})"
                yield (
                    f"{variable(name)}: {fault}, and other machines may reach the gateway, "
                    f"because {exposure}; set your own secret{place}, made with: openssl rand "
                    "-hex 32"
                )
                break


def _fault_of(name: str, secret: SecretStr) -> str | None:
    text = secret.get_secret_value()
    if name.endswith("_url"):
        password = _password_in(text)
        fault = None if password is None else _fault(password, name)
        return fault and f"its password {fault}"
    return _fault(text, name)


def _fault(text: str, name: str) -> str | None:
    if text.lower() in SAMPLES:
        return "is a sample value from the documentation"
    is_weak = len(text) < MIN_CHARS or len(set(text)) < MIN_DIFFERENT_CHARS
    if is_weak and name not in _OF_OTHERS:
        return (
            f"has fewer than {MIN_CHARS} characters, or fewer than {MIN_DIFFERENT_CHARS} different "
            "ones"
        )
    return None


def _password_in(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return None
    if password is None:
        return next(iter(parse_qs(parts.query).get("password", ())), None)
    return unquote(password)


def _is_local(host: str) -> bool:
    return is_loopback(host) or host.endswith(".localhost") or host in _COMPOSE_NAMES


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
