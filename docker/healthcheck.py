"""Exit 0 when /health on a port of this container answers 200 within two seconds, else 1.

Usage: python healthcheck.py PORT
"""

import signal
import sys
from http.client import HTTPConnection, HTTPException
from typing import NoReturn

SECONDS = 2


def too_late(*_: object) -> NoReturn:
    """Break off what the process waits for."""
    raise TimeoutError


# The deadline is for all of it: a timeout of the connection would begin anew with every byte.
signal.signal(signal.SIGALRM, too_late)
signal.alarm(SECONDS)
connection = HTTPConnection("127.0.0.1", int(sys.argv[1]))
try:
    connection.request("GET", "/health")
    healthy = connection.getresponse().status == 200
except (OSError, HTTPException):  # TimeoutError is an OSError
    healthy = False
sys.exit(not healthy)
