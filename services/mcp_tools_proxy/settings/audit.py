"""The settings of the audit; the ``audit`` commands read these and no others."""

import socket
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from mcp_tools_proxy.settings.types import (
    MIN_KEY_CHARS,
    Count,
    EnvironmentSettings,
    OptionalPath,
    variable,
)

TO_LOG = "log"
TO_FILE = "file:"
HOST = "{host}"
"""What is replaced by the name of the machine in the path of the file."""


def _is_destination(value: str) -> str:
    if value != TO_LOG and not value.removeprefix(TO_FILE).strip():
        raise ValueError("should be log, or file: and a path")
    if value != TO_LOG and not value.startswith(TO_FILE):
        raise ValueError("should be log, or start with file:")
    return value


class AuditSettings(EnvironmentSettings):
    """Where the records of all attempts go."""

    audit: Annotated[str, AfterValidator(_is_destination)] = TO_LOG
    """Where audit records go: ``log``, or ``file:PATH`` for the log and a file. ``{host}`` is
    replaced by the host name."""
    audit_key_file: OptionalPath = None
    """File with a key of at least 32 characters that signs the records in the file."""
    audit_required: bool = False
    """Refuse calls whose record could not be written to the file."""
    audit_max_bytes: Count = 104_857_600
    """Maximum size of an audit file, in bytes. A full file is renamed and a new one is started."""
    audit_keep_files: Count = 10
    """Renamed audit files to keep. If there are more, the oldest is deleted and a record names
    it."""
    audit_unauthenticated_bytes: Count = 104_857_600
    """Maximum total size, in bytes, of the separate audit files for requests refused without a
    valid token. They are kept apart so that a flood of them cannot displace other records."""

    @property
    def audit_path(self) -> Path | None:
        """The path of the audit file; None where records go to the log only."""
        if self.audit == TO_LOG:
            return None
        return Path(self.audit.removeprefix(TO_FILE).strip().replace(HOST, socket.gethostname()))


def check_audit(settings: AuditSettings) -> None:
    """Check that what concerns a file has one; the commands name theirs. Raises ValueError."""
    for name, is_set in (
        ("audit_key_file", settings.audit_key_file is not None),
        ("audit_required", settings.audit_required),
    ):
        if is_set and settings.audit == TO_LOG:
            raise ValueError(
                f"{variable(name)}: needs an audit file; set {variable('audit')} to file:PATH"
            )


def read_key(path: Path | None) -> bytes | None:
    """Read the key of the audit; None for no path. Raises ValueError naming the variable."""
    if path is None:
        return None
    name = variable("audit_key_file")
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise ValueError(f"{name}: the file cannot be read: {error.strerror}") from None
    if len(key) < MIN_KEY_CHARS:
        raise ValueError(
            f"{name}: the key has fewer than {MIN_KEY_CHARS} characters; make one with: openssl "
            "rand -hex 32"
        )
    return key
