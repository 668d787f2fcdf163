"""Confinement, tested by processes that try forbidden actions."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.system.confinement import missing_for
from tests.support.kernel import needs_confinement
from tests.support.tables import each_row

pytestmark = needs_confinement

PRELUDE = """
import ctypes, json, mmap, os, resource, signal, socket, subprocess, sys, threading
from mcp_tools_proxy.system.confinement import confine_parser, confine_server
given = json.loads(sys.argv[1])
def of(attempt):
    try:
        return attempt()
    except BaseException as error:
        return type(error).__name__
def syscall(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    return "done" if libc.syscall(number, *arguments) >= 0 else os.strerror(ctypes.get_errno())
def text(path):
    with open(path) as file:
        return file.read()
def put(path):
    with open(path, "w") as file:
        file.write("x")
    return "written"
"""

DENIED = "PermissionError"


def tried(script: str, **given: object) -> Any:
    """Run a script that prints its results as JSON."""
    ended = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", f"{PRELUDE}\n{script}", json.dumps(given)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("in", "out", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret" / "file")
    (tmp_path / ".env").write_text("MCP_PROXY_ADMIN_TOKEN=secret")
    return tmp_path


def test_only_listed_paths_can_be_read(tree: Path) -> None:
    found = tried(
        """
confine_server(command="sh", read=[given["tree"] + "/in"])
tree = given["tree"]
print(json.dumps({
    "listed": of(lambda: text(tree + "/in/file")),
    "dotenv": of(lambda: text(tree + "/.env")),
    "link": of(lambda: text(tree + "/in/link")),
    "dots": of(lambda: text(tree + "/in/../secret/file")),
    "folder": of(lambda: os.listdir(tree)),
    "root": of(lambda: text("/proc/self/root" + tree + "/.env")),
    "of the parent": of(lambda: text(f"/proc/{os.getppid()}/environ")),
    "memory of the parent": of(lambda: open(f"/proc/{os.getppid()}/mem", "rb").read(0)),
    "command of the parent": of(lambda: text(f"/proc/{os.getppid()}/cmdline")),
    "own": of(lambda: bool(text("/proc/self/status"))),
    "written": of(lambda: put(tree + "/out/new")),
    "run": subprocess.run(["sh", "-c", "echo run"], capture_output=True, text=True).stdout,
    "run beside it": subprocess.run(["cat", tree + "/.env"], capture_output=True, text=True).stdout,
}))
""",
        tree=str(tree),
    )
    assert found == {
        "listed": "in",
        **dict.fromkeys(("dotenv", "link", "dots", "folder", "root", "of the parent"), DENIED),
        "memory of the parent": DENIED,
        "command of the parent": DENIED,
        "own": True,
        "written": "written",  # without write, writing is unrestricted
        "run": "run\n",
        "run beside it": "",
    }


def test_only_listed_paths_can_be_written(tree: Path) -> None:
    found = tried(
        """
confine_server(command="sh", write=[given["tree"] + "/out"])
tree = given["tree"]
def moved():
    os.rename(tree + "/out/file", tree + "/secret/moved")
print(json.dumps({
    "listed": of(lambda: put(tree + "/out/new")),
    "changed": of(lambda: put(tree + "/.env")),
    "created": of(lambda: put(tree + "/secret/new")),
    "truncated": of(lambda: os.truncate(tree + "/.env", 0)),
    "opened to truncate": of(lambda: os.open(tree + "/.env", os.O_RDONLY | os.O_TRUNC)),
    "removed": of(lambda: os.remove(tree + "/secret/file")),
    "moved out": of(moved),
    "linked in": of(lambda: os.link(tree + "/.env", tree + "/out/hard")),
    "device": of(lambda: os.mknod(tree + "/out/disk", 0o60600, os.makedev(8, 0))),
    "null": of(lambda: put("/dev/null")),
    "read": of(lambda: text(tree + "/.env")),
}))
""",
        tree=str(tree),
    )
    assert found.pop("moved out") in {"OSError", DENIED}  # EXDEV, as between file systems
    assert found.pop("linked in") in {"OSError", DENIED}
    assert found == {
        "listed": "written",
        **dict.fromkeys(
            ("changed", "created", "truncated", "opened to truncate", "removed", "device"), DENIED
        ),
        "null": "written",
        "read": "MCP_PROXY_ADMIN_TOKEN=secret",  # without read, reading is unrestricted
    }
    assert (tree / ".env").read_text() == "MCP_PROXY_ADMIN_TOKEN=secret"


def test_without_network_access_sockets_cannot_be_created(tree: Path) -> None:
    """This includes sockets of Docker and D-Bus, which can start programs outside of the
    sandbox."""
    found = tried(
        """
tree = given["tree"]
local = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
local.bind(tree + "/datagrams")
confine_server(command="sh", network=False)
setup = syscall(425, 8, ctypes.create_string_buffer(120))
print(json.dumps({
    "tcp": of(lambda: socket.socket()),
    "udp": of(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)),
    "unix": of(lambda: socket.socket(socket.AF_UNIX)),
    "netlink": of(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "datagrams": of(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
    "pair": of(lambda: len(socket.socketpair())),
    "io_uring": setup,
    "child": subprocess.run(
        [sys.executable, "-c", "import socket; socket.socket()"], capture_output=True, text=True
    ).stderr[-len("[Errno 13] Permission denied\\n"):],
    "files": of(lambda: text(tree + "/.env")),
}))
""",
        tree=str(tree),
    )
    assert found == {
        **dict.fromkeys(("tcp", "udp", "unix", "netlink", "datagrams"), DENIED),
        "pair": 2,
        "io_uring": "Function not implemented",
        "child": "[Errno 13] Permission denied\n",
        "files": "MCP_PROXY_ADMIN_TOKEN=secret",
    }


@pytest.mark.parametrize("given", [{"network": False}, {"read": ["/"]}, {"write": ["/"]}])
def test_processes_outside_cannot_be_reached(given: Mapping[str, object]) -> None:
    found = tried(
        """
confine_server(command="sh", **given)
parent = os.getppid()
print(json.dumps({
    "signal": of(lambda: os.kill(parent, 0)),
    "limits": of(lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE, (3, 3))),
    "environment": of(lambda: text(f"/proc/{parent}/environ")),
    "own child": of(lambda: os.kill(subprocess.Popen(["sleep", "60"]).pid, signal.SIGKILL)),
}))
""",
        **given,
    )
    assert found == {
        **dict.fromkeys(("signal", "limits", "environment"), DENIED),
        "own child": None,
    }


def test_limits_of_memory_and_cores_cannot_be_raised_again() -> None:
    found = tried(
        """
confine_server(command="sh", memory=256 * 2**20, cpu=1)
def raised():
    resource.setrlimit(resource.RLIMIT_DATA, (2**40, 2**40))
child = "import os; print(len(os.sched_getaffinity(0)))\\nbytearray(300 * 2**20)"
run = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
print(json.dumps({
    "taken": of(lambda: len(bytearray(300 * 2**20))),
    "reserved": of(lambda: len(mmap.mmap(-1, 2**34, prot=mmap.PROT_READ))),
    "raised": of(raised),
    "cores": len(os.sched_getaffinity(0)),
    "more cores": of(lambda: os.sched_setaffinity(0, range(os.cpu_count()))),
    "child": [run.stdout, "MemoryError" in run.stderr],
    "socket": of(lambda: bool(socket.socket())),
}))
"""
    )
    assert found == {
        "taken": "MemoryError",
        "reserved": 2**34,  # address space is not memory: Node and Go reserve much of it
        "raised": "ValueError",
        "cores": 1,
        "more cores": DENIED,
        "child": ["1\n", True],
        "socket": True,
    }


def test_more_cores_than_available_means_all_cores() -> None:
    found = tried(
        """
there = len(os.sched_getaffinity(0))
confine_server(command="sh", cpu=1000)
print(json.dumps({"same": len(os.sched_getaffinity(0)) == there}))
"""
    )
    assert found == {"same": True}


def test_an_empty_confinement_does_not_restrict_anything() -> None:
    script = """
status = lambda: [it for it in text("/proc/self/status").splitlines() if it[:3] in ("Cap", "NoN")]
before = status()
confine_server(command="sh", network=True)
print(json.dumps({"same": status() == before, "socket": of(lambda: bool(socket.socket()))}))
"""
    assert tried(script) == {"same": True, "socket": True}


def test_a_path_that_does_not_exist_is_an_error(tree: Path) -> None:
    script = """
print(json.dumps([
    of(lambda: confine_server(command="sh", read=[given["tree"] + "/none"])),
    of(lambda: confine_server(command="sh", write=[given["tree"] + "/none"])),
]))
"""
    assert tried(script, tree=str(tree)) == ["FileNotFoundError", "FileNotFoundError"]


@pytest.mark.parametrize("key", ["read", "write"])
@pytest.mark.parametrize("place", ["out/cache", "out/cache/notes", "out/file-link"])
def test_a_link_left_by_a_server_does_not_widen_its_next_sandbox(
    tree: Path, key: str, place: str
) -> None:
    (tree / "secret" / "notes").mkdir()
    (tree / "out" / "cache").symlink_to(tree / "secret")
    (tree / "out" / "file-link").symlink_to(tree / ".env")
    found = tried(
        """
def confined():
    lists = {"read": [], "write": [given["tree"] + "/out"]}
    lists[given["key"]].append(given["tree"] + "/" + given["place"])
    confine_server(command="sh", **lists)
try:
    confined()
    print(json.dumps("opened"))
except OSError as error:
    print(json.dumps(str(error)))
""",
        tree=str(tree),
        key=key,
        place=place,
    )
    assert "symbolic link" in found
    assert place in found


@pytest.mark.parametrize("target", ["secret", "secret/file", ".env"])
def test_a_link_in_place_of_the_program_does_not_open_other_files(tree: Path, target: str) -> None:
    """A server that can write next to its program could have created the link."""
    (tree / "out" / "program").symlink_to(tree / target)
    found = tried(
        """
tree = given["tree"]
confine_server(command=tree + "/out/program", read=[], write=[tree + "/out"])
print(json.dumps([of(lambda: text(tree + "/secret/file")), of(lambda: text(tree + "/.env"))]))
""",
        tree=str(tree),
    )
    assert found == [DENIED, DENIED]


def test_a_program_is_found_through_a_link() -> None:
    found = tried(
        """
confine_server(command=sys.executable, read=[])
print(json.dumps(of(lambda: bool(open(sys.executable, "rb").read(4)))))
"""
    )
    assert found is True


ATTRIBUTES = """
secret = given["tree"] + "/secret/file"
descriptor = os.open(given["tree"] + "/in/file", os.O_RDONLY)
def left():
    return {
        "mode": of(lambda: os.chmod(secret, 0o777)),
        "mode of an open file": of(lambda: os.fchmod(descriptor, 0o777)),
        "owner": of(lambda: os.chown(secret, os.getuid(), os.getgid())),
        "times": of(lambda: os.utime(secret)),
        "attribute": of(lambda: os.setxattr(secret, "user.x", b"x")),
    }
"""


@pytest.mark.parametrize(
    "confine",
    [
        'confine_server(command="sh", write=[])',
        'confine_server(command="sh", network=False, read=[given["tree"]], write=[])',
        "confine_parser(read=[])",
    ],
)
def test_without_write_access_mode_owner_and_times_cannot_be_changed(
    tree: Path, confine: str
) -> None:
    before = (tree / "secret" / "file").stat()
    found = tried(f"{ATTRIBUTES}\n{confine}\nprint(json.dumps(left()))", tree=str(tree))
    assert set(found.values()) == {DENIED}
    assert (tree / "secret" / "file").stat() == before


@pytest.mark.parametrize("given", [{"network": False}, {"read": []}, {"write": []}])
def test_the_priority_of_other_processes_cannot_be_changed(given: Mapping[str, object]) -> None:
    found = tried(
        """
confine_server(command="sh", **given)
parent = os.getppid()
print(json.dumps({
    "priority": of(lambda: os.setpriority(os.PRIO_PROCESS, parent, 19)),
    "of the user": of(lambda: os.setpriority(os.PRIO_USER, 0, 19)),
    "scheduler": of(lambda: os.sched_setscheduler(parent, os.SCHED_BATCH, os.sched_param(0))),
    "cores": of(lambda: os.sched_setaffinity(parent, {0})),
    "own": of(lambda: os.setpriority(os.PRIO_PROCESS, 0, 1)),
    "own cores": of(lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))),
}))
""",
        **given,
    )
    assert found == {
        **dict.fromkeys(("priority", "of the user", "scheduler", "cores"), DENIED),
        **dict.fromkeys(("own", "own cores")),
    }


def test_root_loses_capabilities_that_could_undo_the_confinement() -> None:
    script = """
confine_server(command="sh", read=["/"])
child = subprocess.run(["cat", f"/proc/self/status"], capture_output=True, text=True).stdout
print(json.dumps([int(it.split()[1], 16) for it in child.splitlines() if it[:6] == "CapEff"]))
"""
    (capabilities,) = tried(script)
    assert not capabilities & (1 << 19 | 1 << 21 | 1 << 24)  # ptrace, admin, resource


def test_a_parser_cannot_start_processes_or_write_files(tree: Path) -> None:
    found = tried(
        """
tree = given["tree"]
confine_parser(read=[tree + "/in"])
thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
print(json.dumps({
    "read": of(lambda: text(tree + "/in/file")),
    "written": of(lambda: put(tree + "/out/new")),
    "dotenv": of(lambda: text(tree + "/.env")),
    "passwd": of(lambda: text("/etc/passwd")),
    "environment": of(lambda: text(f"/proc/{os.getppid()}/environ")),
    "own": of(lambda: text("/proc/self/environ")),
    "socket": of(lambda: socket.socket()),
    "forked": of(os.fork),
    "run": of(lambda: subprocess.run(["/bin/true"])),
    "become": of(lambda: os.execv("/bin/true", ["true"])),
    "threads": "run",
}))
""",
        tree=str(tree),
    )
    assert found == {
        "read": "in",
        **dict.fromkeys(("written", "dotenv", "passwd", "environment", "own", "socket"), DENIED),
        **dict.fromkeys(("forked", "run", "become"), DENIED),
        "threads": "run",
    }


ON_AN_OLD_KERNEL = """
from mcp_tools_proxy.system import landlock
landlock.abi = lambda: 0
"""


@each_row("kernel", ["", ON_AN_OLD_KERNEL], ids=["Landlock", "none"])
def test_a_parser_can_signal_only_itself(kernel: str) -> None:
    found = tried(
        kernel
        + """
confine_parser(read=[])
caught = []
signal.signal(signal.SIGUSR1, lambda *_: caught.append("caught"))
parent = os.getppid()
print(json.dumps({
    "parent": of(lambda: os.kill(parent, 0)),
    "all": of(lambda: os.kill(-1, 0)),
    "group": of(lambda: os.kill(0, 0)),
    "thread": syscall(200, parent, 0),
    "thread of the parent": syscall(234, parent, parent, 0),
    "queued": syscall(129, parent, 0, ctypes.create_string_buffer(128)),
    "by descriptor": syscall(424, os.pidfd_open(parent), 0, None, 0),
    "itself": of(lambda: (os.kill(os.getpid(), signal.SIGUSR1), caught)[1]),
}))
"""
    )
    assert found.pop("itself") == ["caught"]
    assert set(found.values()) == {DENIED, os.strerror(errno.EPERM)}


def test_processes_of_the_same_user_cannot_read_a_parsers_memory() -> None:
    found = tried(
        """
if not os.getuid():
    os.setuid(65534)
ready, done = os.pipe(), os.pipe()
parser = os.fork()
if not parser:
    confine_parser(read=[])
    os.write(ready[1], b"x")
    os.read(done[0], 1)
    os._exit(0)
os.read(ready[0], 1)
print(json.dumps({
    "environment": of(lambda: text(f"/proc/{parser}/environ")),
    "memory": of(lambda: open(f"/proc/{parser}/mem", "rb").read(0)),
    "descriptors": of(lambda: os.listdir(f"/proc/{parser}/fd")),
}))
os.write(done[1], b"x")
os.waitpid(parser, 0)
"""
    )
    assert found == dict.fromkeys(("environment", "memory", "descriptors"), DENIED)


def test_system_calls_of_another_abi_kill_the_process() -> None:
    """x32 has other numbers for the same calls, which a filter by number would miss."""
    if os.uname().machine != "x86_64":
        pytest.skip("NOT TESTED: x32 is there on x86-64 only")
    script = f"""{PRELUDE}
confine_server(command="sh", network=False)
syscall(0x40000000 + 41, 2, 1, 0)
"""
    ended = subprocess.run([sys.executable, "-c", script, "{}"], check=False)  # noqa: S603
    assert ended.returncode == -31  # SIGSYS


def test_missing_features_of_the_machine_are_reported() -> None:
    assert missing_for(read=True, write=True, calls=True) is None
