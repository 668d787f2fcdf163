"""The MCP Inspector as npm installs it."""

import os

from tests.interop.conformance_suite import MODULES

INSPECTOR = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
ALONE = {"PATH": os.defpath, "HOME": ".", "MCP_INSPECTOR_SECRET_STORE": "memory"}
"""An environment in which the Inspector touches neither the user's files nor the keychain."""
