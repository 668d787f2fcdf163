"""ASGI entry point for other servers (uvicorn, gunicorn): ``mcp_tools_proxy.asgi:app``."""

import sys

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.sandbox.system_calls import hide_memory
from mcp_tools_proxy.settings.settings import load_settings
from mcp_tools_proxy.telemetry.logging import configure_logging

hide_memory()
settings = load_settings()
configure_logging(settings.log_level, sys.stdout)
app = create_app(settings)
