"""The MCP Inspector as installed by npm."""

import os

from tests.interop.conformance_suite import MODULES

INSPECTOR = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
ALONE = {"PATH": os.defpath, "HOME": ".", "MCP_INSPECTOR_SECRET_STORE": "memory"}
"""An environment that keeps the Inspector away from the user's files and keychain."""
