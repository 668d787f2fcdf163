"""The ``retrieval-service`` program."""

import sys

import uvicorn

from mcp_tools_proxy.telemetry.logging import configure_logging
from retrieval_service.app import create_app
from retrieval_service.settings import SettingsError, load_settings


def main() -> None:
    """Serve until stopped. A bad setting ends with one line on stderr and exit code 2."""
    try:
        settings = load_settings()
    except SettingsError as error:
        sys.exit(_usage_error(error))
    configure_logging(settings.log_level, sys.stdout)
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
    )


def _usage_error(error: SettingsError) -> int:
    sys.stderr.write(f"retrieval-service: {error}\n")
    return 2
