"""The conformance suite's client: it passes its task to the tests and exits as they reply.

Its arguments are their port and the URL of the suite's server. This avoids importing the gateway in
40 programs at the same time.
"""

import json
import os
import socket
import sys


def main() -> int:
    """Send the task and return the exit code."""
    environ = os.environ  # noqa: TID251 - how the suite passes a task
    task = {
        "url": sys.argv[2],
        "scenario": environ["MCP_CONFORMANCE_SCENARIO"],
        "version": environ["MCP_CONFORMANCE_PROTOCOL_VERSION"],
        "context": json.loads(environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
    }
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as tests:
        tests.sendall(json.dumps(task).encode() + b"\n")
        report = json.loads(tests.makefile().readline())
    sys.stdout.write("\n".join(report["steps"]))
    return int(report["code"])


if __name__ == "__main__":
    sys.exit(main())
