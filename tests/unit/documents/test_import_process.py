import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from fpdf import FPDF

from mcp_tools_proxy.documents.importers.base import (
    ImportFailed,
    ImportOptions,
    Progress,
    no_progress,
)
from mcp_tools_proxy.documents.importers.import_process import (
    MOST_WAITING,
    Importer,
    ImporterBusy,
    ImportPlaces,
    ImportUnavailable,
)
from mcp_tools_proxy.documents.page_images import NotRendered, PageRenderer
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.storage.files import write_all
from tests.support.bounds import BOUND_S, until
from tests.support.kernel import needs_confinement

LIMITED = "from mcp_tools_proxy.documents.importers.import_worker import limit_process as limit\n"
DOCUMENT = '{"doc_id": "doc", "tenant_id": "acme", "title": "t", "pages": ["text"]%s}'


def options(tenant_id: str = "acme") -> ImportOptions:
    return ImportOptions(
        tenant_id=tenant_id, doc_id="doc", stem="note", title="Mine", tags=("a", "b")
    )


WITH_OCR = replace(options(), ocr_languages=("eng", "deu"))


NO_WAIT = partial(ImportPlaces, wait_s=0)


def running(program: str, *, timeout_s: float = BOUND_S) -> Importer:
    program = f"print('started', flush=True)\n{program}"
    return Importer(worker=(sys.executable, "-c", program), timeout_s=timeout_s, places=NO_WAIT())


async def imported(
    importer: Importer,
    path: Path,
    suffix: str,
    wanted: ImportOptions,
    progress: Progress = no_progress,
) -> Document:
    with path.open("rb") as source:
        async with importer.imported(source, suffix, wanted, progress) as found:
            return found.document()


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.md"
    path.write_text("# A note\n\nText.\n", encoding="utf-8")
    return path


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    path = tmp_path / "scan"
    path.write_bytes(b"%PDF-1.7\n")
    return path


async def test_a_file_is_imported_as_in_this_process(note: Path) -> None:
    document = await imported(Importer(), note, ".md", options())
    assert (document.title, document.tags, document.pages) == (
        "Mine",
        ("a", "b"),
        ("# A note\n\nText.\n",),
    )


async def test_progress_is_reported_for_each_page_of_a_pdf(tmp_path: Path) -> None:
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    for number in range(3):
        pdf.add_page()
        pdf.cell(text=f"page {number}")
    path = tmp_path / "book"
    path.write_bytes(bytes(pdf.output()))
    shown: list[tuple[int, int]] = []
    document = await imported(Importer(), path, ".pdf", options(), lambda *it: shown.append(it))
    assert (len(document.pages), shown[-1]) == (3, (3, 3))


@pytest.mark.parametrize(
    ("content", "suffix", "reason"),
    [
        (b"%PDF-no", ".pdf", "PDF"),
        (b"text", ".odt", "is text, not a .odt file"),
    ],
)
async def test_a_refusal_contains_the_parsers_reason(
    tmp_path: Path, content: bytes, suffix: str, reason: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ImportFailed) as failed:
        await imported(Importer(), path, suffix, options())
    assert reason in failed.value.reason


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.abort()", "the importer crashed"),
        ("raise SystemExit(3)", "the importer crashed"),
        (LIMITED + "limit()\nx = b'x' * 2**31", "the importer crashed"),
        ("print('document 99999999999')", "results in a document of"),
        ("print('document 5'); print('{')", "the importer crashed"),
        ("print('document 2'); print('{}')", "does not result in a valid document"),
        ("print('document 3'); print('\\x00[]')", "does not result in a valid document"),
        ("print('x' * 10**6)", "not a document"),
        ("print('failed \"bad\\\\u001b[31m file\"')", "bad[31m file"),
        (LIMITED + "limit(1)\nwhile True: pass", "more than 120 s of CPU; cut the file"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "needs more memory"),
    ],
)  # fmt: skip
async def test_a_misbehaving_process_fails_only_its_own_import(
    note: Path, program: str, reason: str
) -> None:
    with pytest.raises(ImportFailed) as failed:
        await imported(running(program), note, ".md", options())
    assert reason in failed.value.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (DOCUMENT.replace("acme", "globex") % "", "a different document"),
        (DOCUMENT.replace('"doc"', '"other"') % "", "a different document"),
        (DOCUMENT % ', "readers": {"users": ["eve"]}', "names readers"),
        (DOCUMENT % ', "pages": ["twice"]', "named twice"),
        (DOCUMENT % (', "x": [' + "0," * 1_000_000 + "0]"), "holds more than 200000 JSON values"),
    ],
)
async def test_the_result_is_validated_like_an_untrusted_file(
    note: Path, content: str, reason: str
) -> None:
    # sent as the file: too long for an argument
    await anyio.Path(note).write_text(content)
    program = (
        "import sys; sys.stdin.readline(); content = sys.stdin.read()\n"
        "print('document', len(content)); print(content)"
    )
    with pytest.raises(ImportFailed) as failed:
        await imported(running(program), note, ".md", options())
    assert reason in failed.value.reason


FLOOD = "import os\nwhile True: os.write(1, b'\\n' * 65536)"


async def test_a_file_that_needs_too_much_memory_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "list.md"
    path.write_text("* a\n" * 600_000, encoding="ascii")
    with pytest.raises(ImportFailed) as caught:
        await imported(Importer(timeout_s=BOUND_S), path, ".md", options())
    assert "needs more memory than an import may use" in caught.value.reason


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", "lack of memory"),
        ("import os; os._exit(120)", "needs more memory than an import may use"),
        ("import os; os._exit(1)", "the importer crashed"),
    ],
)
async def test_a_process_without_an_answer_is_explained_by_its_exit(
    note: Path, program: str, reason: str
) -> None:
    with pytest.raises(ImportFailed) as caught:
        await imported(running(program), note, ".md", options())
    assert reason in caught.value.reason


async def test_unread_output_does_not_hold_a_slot(note: Path) -> None:
    importer = running("print('document 99999999999', flush=True)\n" + FLOOD)
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(ImportFailed, match="results in a document of"):
            await imported(importer, note, ".md", options())
    assert "0 running" in repr(importer)


async def test_a_process_that_leaves_its_group_does_not_hold_a_slot(note: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(\n"
        "    [sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True\n"
        ")\n"
        "print('progress', child.pid, 1)\n"
        "print('document 99999999999')"
    )
    await anyio.Path(note).write_bytes(b"x" * 1_000_000)  # more than a pipe holds, and unread
    children: list[int] = []
    importer = running(program)
    try:
        async with asyncio.timeout(BOUND_S):
            with pytest.raises(ImportFailed, match="results in a document of"):
                await imported(
                    importer, note, ".md", options(), lambda done, _: children.append(done)
                )
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
    assert "0 running" in repr(importer)


async def test_endless_output_does_not_block_the_event_loop(note: Path) -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while turns < 20_000:
            await asyncio.sleep(0)
            turns += 1

    importing = imported(running(FLOOD, timeout_s=600), note, ".md", options())
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        flooded = group.create_task(importing)
        await take_turns()
        flooded.cancel()
    assert turns == 20_000


async def test_a_long_reason_is_truncated(note: Path) -> None:
    with pytest.raises(ImportFailed) as failed:
        await imported(running("print('failed \"' + 'x' * 200_000 + '\"')"), note, ".md", options())
    assert len(failed.value.reason) == 1_000


async def test_after_a_timeout_the_process_and_its_children_are_killed(note: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('progress', child.pid, 1, flush=True)\n"
        "time.sleep(600)"
    )
    children: list[int] = []
    with pytest.raises(ImportFailed, match="was not imported within"):
        await imported(
            running(program, timeout_s=2.0),
            note,
            ".md",
            options(),
            lambda done, _: children.append(done),
        )
    for pid in children:
        await until(partial(is_dead, pid))


def is_dead(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return state.rpartition(")")[2].split()[0] == "Z"


async def test_the_process_inherits_nothing_and_leaves_no_folder(
    note: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_PROXY_ADMIN_TOKEN", "secret")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "scratch").mkdir()
    program = (
        "import json, os, resource\n"
        "from mcp_tools_proxy.documents.importers.import_worker import limit_process\n"
        "opened = sorted(map(int, os.listdir('/proc/self/fd')))\n"
        "limit_process()\n"
        "found = [sorted(os.environ), opened, os.getcwd(),\n"
        "  resource.getrlimit(resource.RLIMIT_AS), "
        "resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_NPROC)]\n"
        "print('failed', json.dumps(json.dumps(found)))"
    )
    opened = os.open(note, os.O_RDONLY)
    os.set_inheritable(opened, True)
    with pytest.raises(ImportFailed) as failed:
        await imported(running(program), note, ".md", options())
    os.close(opened)
    environment, descriptors, folder, memory, cpu, started = json.loads(failed.value.reason)
    # LC_CTYPE is set by Python itself if the locale is missing
    assert set(environment) - {"LC_CTYPE"} == {"OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS"}
    assert len(descriptors) == 4  # its pipes, and the descriptor that lists the folder
    assert (folder, list((tmp_path / "scratch").iterdir())) == ("/", [])
    assert (memory, cpu, started) == ([2**30, 2**30], [120, 121], [0, 0])


HOSTILE = """
import json, os, socket, sys
from mcp_tools_proxy.documents.importers.import_worker import limit_process
limit_process()
def of(attempt):
    try:
        return str(attempt())
    except OSError as error:
        return type(error).__name__
def put(path):
    with open(path, "w") as file:
        return file.write("x")
def text(path):
    with open(path, "rb") as file:
        return file.read(10)
def connected(family, address):
    with socket.socket(family) as connection:
        return connection.connect(address)
secret = %r
found = {
    "dotenv": of(lambda: text(secret + "/.env")),
    "by a link": of(lambda: (os.symlink(secret + "/.env", "link"), text("link"))),
    "tokens": of(lambda: text(secret + "/tokens.json")),
    "listed": of(lambda: os.listdir(secret)),
    "written": of(lambda: put(secret + "/new")),
    "environment": of(lambda: text(f"/proc/{os.getppid()}/environ")),
    "memory": of(lambda: text(f"/proc/{os.getppid()}/mem")),
    "command": of(lambda: text(f"/proc/{os.getppid()}/cmdline")),
    "signal": of(lambda: os.kill(os.getppid(), 0)),
    "tcp": of(lambda: connected(socket.AF_INET, ("127.0.0.1", 9))),
    "unix": of(lambda: connected(socket.AF_UNIX, secret + "/socket")),
    "started": of(os.fork),
    "current folder": of(lambda: put("scratch")),
    "temporary folder": of(lambda: put("/tmp/scratch")),
    "libraries": of(lambda: bool(text(json.__file__))),
}
print("failed", json.dumps(json.dumps(found)))
"""


@needs_confinement
async def test_a_hijacked_parser_cannot_access_secrets_or_the_network(
    note: Path, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("MCP_PROXY_ADMIN_TOKEN=secret")
    (tmp_path / "tokens.json").write_text("{}")
    with pytest.raises(ImportFailed) as failed:
        await imported(running(HOSTILE % str(tmp_path)), note, ".md", options())
    found = json.loads(failed.value.reason)
    assert found.pop("libraries") == "True"
    assert found == dict.fromkeys(found, "PermissionError")
    assert len(found) == 14


@needs_confinement
async def test_a_hijacked_renderer_cannot_access_secrets_or_the_network(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MCP_PROXY_ADMIN_TOKEN=secret")
    probe = "print('failed', json.dumps(of(lambda: text(secret + '/.env'))))"
    hostile = f"{HOSTILE % str(tmp_path)}".split("found = {")[0] + probe
    renderer = PageRenderer(max_image_bytes=1000, worker=(sys.executable, "-c", hostile))
    with pytest.raises(NotRendered) as refused:
        await renderer.render(b"", 1)
    assert refused.value.reason == "PermissionError"


async def test_one_import_per_tenant_and_two_in_total_run_concurrently(note: Path) -> None:
    importer = running("import time; time.sleep(600)")
    async with asyncio.TaskGroup() as group:
        first = group.create_task(imported(importer, note, ".md", options("acme")))
        await until(lambda: "1 running" in repr(importer))
        with pytest.raises(ImporterBusy):
            await imported(importer, note, ".md", options("acme"))
        second = group.create_task(imported(importer, note, ".md", options("globex")))
        await until(lambda: "2 running" in repr(importer))
        with pytest.raises(ImporterBusy):
            await imported(importer, note, ".md", options("third"))
        first.cancel()
        second.cancel()
    assert "0 running" in repr(importer)


async def test_two_scans_leave_a_slot_for_another_file(note: Path, scan: Path) -> None:
    importer = running("import time; time.sleep(600)")
    first, second, third = (
        replace(WITH_OCR, tenant_id=tenant) for tenant in ("acme", "globex", "third")
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(imported(importer, scan, ".pdf", it)) for it in (first, second)]
        await until(lambda: "2 running" in repr(importer))
        with pytest.raises(ImporterBusy):
            await imported(importer, scan, ".pdf", third)
        tasks.append(group.create_task(imported(importer, note, ".md", third)))
        await until(lambda: "3 running" in repr(importer))
        with pytest.raises(ImporterBusy):
            await imported(importer, note, ".md", options("fourth"))
        for task in tasks:
            task.cancel()


SLEEPING = (sys.executable, "-c", "import time; time.sleep(600)")
ONE_PAGE = (
    sys.executable,
    "-c",
    "import json, sys\n"
    "wanted = json.loads(sys.stdin.buffer.readline())\n"
    "ids = {name: wanted['options'][name] for name in ('tenant_id', 'doc_id')}\n"
    "text = json.dumps({**ids, 'title': 't', 'pages': ['text']})\n"
    "print('document', len(text))\n"
    "print(text, end='')\n",
)


async def test_slow_files_of_some_tenants_do_not_block_other_tenants(note: Path) -> None:
    """With one import per tenant, two tenants held both slots for three minutes."""
    places = ImportPlaces(share_s=0)
    slow = Importer(worker=SLEEPING, places=places)
    quick = Importer(worker=ONE_PAGE, places=places)
    async with asyncio.TaskGroup() as group:
        attackers = [
            group.create_task(outcome_of(imported(slow, note, ".md", options(tenant))))
            for tenant in ("acme", "globex")
        ]
        await until(lambda: places.running == 2)
        assert (await imported(quick, note, ".md", options("victim"))).pages[0] == "text"
        reasons = [await it for it in attackers]
    assert any("while other tenants waited" in reason for reason in reasons)


async def test_slots_are_assigned_in_order_of_arrival(note: Path) -> None:
    places = ImportPlaces()
    slow = Importer(worker=SLEEPING, places=places)
    quick = Importer(worker=ONE_PAGE, places=places)
    done: list[str] = []

    async def wait_for_one(tenant: str) -> None:
        await imported(quick, note, ".md", options(tenant))
        done.append(tenant)

    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(outcome_of(imported(slow, note, ".md", options(tenant))))
            for tenant in ("acme", "globex")
        ]
        await until(lambda: places.running == 2)
        for number, tenant in enumerate(("first", "second", "third"), 1):
            group.create_task(wait_for_one(tenant))
            await until(lambda: f"{number} waiting" in repr(places))  # noqa: B023 - at once
        with pytest.raises(ImporterBusy, match="of this tenant"):
            await imported(quick, note, ".md", options("first"))
        running[0].cancel()
        await until(lambda: len(done) == 3)
        running[1].cancel()
    assert done == ["first", "second", "third"]
    assert repr(places) == "<ImportPlaces: 0 running, 0 waiting>"


async def test_a_cancelled_waiter_does_not_take_a_slot() -> None:
    places = ImportPlaces()

    async def hold(tenant: str) -> None:
        async with places.place(tenant, with_ocr=False, timeout_s=BOUND_S):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        holding = [group.create_task(hold(tenant)) for tenant in ("acme", "globex")]
        await until(lambda: places.running == 2)
        leaving = group.create_task(hold("gone"))
        await until(lambda: "1 waiting" in repr(places))
        holding.pop().cancel()
        leaving.cancel()  # the turn of the loop that may assign the slot
        await until(lambda: "1 running, 0 waiting" in repr(places))
        async with places.place("next", with_ocr=False, timeout_s=BOUND_S):
            assert places.running == 2
        holding.pop().cancel()


async def test_without_other_imports_a_file_has_the_full_timeout(note: Path) -> None:
    importer = Importer(worker=ONE_PAGE, places=ImportPlaces(share_s=0, ocr_share_s=0))
    assert (await imported(importer, note, ".md", options())).pages[0] == "text"


async def test_too_many_waiting_tenants_are_refused(note: Path) -> None:
    places = ImportPlaces()
    async with AsyncExitStack() as stack:
        for tenant in ("acme", "globex"):
            place = places.place(tenant, with_ocr=False, timeout_s=BOUND_S)
            await stack.enter_async_context(place)
        async with asyncio.TaskGroup() as group:
            waiting = [
                group.create_task(
                    outcome_of(imported(Importer(places=places), note, ".md", options(f"t{it}")))
                )
                for it in range(MOST_WAITING)
            ]
            await until(lambda: f"{MOST_WAITING} waiting" in repr(places))
            with pytest.raises(ImporterBusy, match="too many"):
                await imported(Importer(places=places), note, ".md", options("more"))
            for task in waiting:
                task.cancel()


async def outcome_of(importing: Coroutine[Any, Any, Document]) -> str:
    try:
        return str(await importing)
    except (ImporterBusy, ImportFailed) as error:
        return error.reason


async def test_failing_to_start_a_process_is_reported_and_frees_the_slot(note: Path) -> None:
    importer = Importer(worker=("/no/such/program",))
    with pytest.raises(ImportUnavailable) as failed:
        await imported(importer, note, ".md", options())
    assert failed.value.reason == (
        "an import cannot be run on this machine now: No such file or directory"
    )
    assert "0 running" in repr(importer)


async def test_a_process_that_cannot_start_is_no_fault_of_the_file(note: Path) -> None:
    for program, reason in (
        ("import a_missing_module", "ModuleNotFoundError: No module named 'a_missing_module'"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit code -9"),
    ):
        with pytest.raises(ImportUnavailable) as failed:
            await imported(Importer(worker=(sys.executable, "-c", program)), note, ".md", options())
        assert failed.value.reason.endswith(f"its process ended at the start: {reason}")


async def test_a_document_over_the_size_limit_is_refused(note: Path) -> None:
    program = "print('document 101'); print('x' * 100)"
    importer = Importer(worker=(sys.executable, "-c", program), max_document_bytes=100)
    with pytest.raises(ImportFailed, match="101 bytes, the limit is 100"):
        await imported(importer, note, ".md", options())


async def test_a_finished_import_frees_its_slot_before_its_document_is_stored(note: Path) -> None:
    importer = Importer()
    with note.open("rb") as first, note.open("rb") as second:
        async with importer.imported(first, ".md", options()) as done:
            assert "0 running" in repr(importer)
            async with importer.imported(second, ".md", options()):
                assert done.document().title == "Mine"


async def test_a_full_disk_is_reported(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mcp_tools_proxy.documents.importers.import_process.open_temporary",
        lambda _prefix: FileIO("/dev/full", "r+"),
    )
    with pytest.raises(ImportUnavailable, match="No space left"):
        await imported(Importer(), note, ".md", options())


async def test_a_result_sent_byte_by_byte_is_read_in_few_pieces(
    note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[int] = []

    def counted(file: FileIO, content: bytes) -> None:
        pieces.append(len(content))
        write_all(file, content)

    monkeypatch.setattr("mcp_tools_proxy.documents.importers.import_process.write_all", counted)
    content = (DOCUMENT % "").ljust(100_000).encode()
    program = (
        f"import os; os.write(1, b'document {len(content)}\\n')\n"
        f"for byte in {content[:100]!r}.ljust({len(content)}): os.write(1, bytes([byte]))"
    )
    document = await imported(running(program), note, ".md", options())
    assert document.pages == ("text",)
    assert len(pieces) < len(content) / 10


REQUEST = "import sys; print('failed', __import__('json').dumps(sys.stdin.readline()))"


@pytest.mark.parametrize(
    ("content", "wanted", "ocr_timeout_s", "cpu_s", "languages"),
    [
        (b"%PDF-1.7", options(), 900.0, 120, []),
        (b"%PDF-1.7", WITH_OCR, 900.0, 900, ["eng", "deu"]),
        (b"%PDF-1.7", WITH_OCR, 5.0, 120, ["eng", "deu"]),
        (b"\xff\xd8\xff\xe0", WITH_OCR, 900.0, 900, ["eng", "deu"]),
        (b"<html>", WITH_OCR, 900.0, 120, ["eng", "deu"]),
    ],
)
async def test_an_import_with_ocr_has_a_separate_cpu_limit(
    tmp_path: Path,
    content: bytes,
    wanted: ImportOptions,
    ocr_timeout_s: float,
    cpu_s: int,
    languages: list[str],
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    importer = Importer(worker=(sys.executable, "-c", REQUEST), ocr_timeout_s=ocr_timeout_s)
    with pytest.raises(ImportFailed) as failed:
        await imported(importer, path, ".txt", wanted)
    request = json.loads(failed.value.reason)
    assert (request["cpu_s"], request["options"]["ocr_languages"]) == (cpu_s, languages)


async def test_a_timeout_with_ocr_names_the_setting(scan: Path) -> None:
    importer = Importer(
        worker=(sys.executable, "-c", "import time; time.sleep(600)"),
        timeout_s=0.1,
        ocr_timeout_s=0.2,
    )
    with pytest.raises(ImportFailed) as failed:
        await imported(importer, scan, ".pdf", WITH_OCR)
    assert failed.value.reason == (
        "was not imported within 0.2 s; set MCP_PROXY_OCR_TIMEOUT_S higher, or cut the file into "
        "parts"
    )
