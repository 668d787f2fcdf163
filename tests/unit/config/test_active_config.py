"""Selection of the active preset, and other effects of the files (contract §6)."""

from pathlib import Path

import pytest

from tests.unit.gateway.reloader_fixture import Reloading, write_preset, write_servers

BROKEN = "{ not json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two servers, and the presets work (alpha) and play (beta)."""
    write_servers(tmp_path, "alpha", "beta")
    write_preset(tmp_path, "work", "alpha/search")
    write_preset(tmp_path, "play", "beta/translate")
    return tmp_path


async def started(folder: Path, *, pinned: str | None = None) -> Reloading:
    it = Reloading(folder, pinned=pinned)
    await it.reloader.load()
    return it


def break_file(path: Path) -> None:
    path.write_text(BROKEN, encoding="utf-8")


async def test_the_pinned_preset_has_precedence(folder: Path) -> None:
    write_servers(folder, "alpha", "beta", default="work")
    assert (await started(folder, pinned="play")).active == "play"


async def test_without_a_pinned_preset_the_default_is_selected(folder: Path) -> None:
    write_servers(folder, "alpha", "beta", default="work")
    it = await started(folder)
    assert (it.active, it.tools) == ("work", ["alpha:search"])


async def test_without_a_named_preset_the_only_one_is_selected(folder: Path) -> None:
    (folder / "preset_play.json").unlink()
    assert (await started(folder)).active == "work"


@pytest.mark.requirement("P-19")
async def test_without_a_named_preset_none_of_several_is_selected(folder: Path) -> None:
    it = await started(folder)
    assert (it.active, it.tools, it.code("alpha:search"), it.code("local")) == (
        "__empty__",
        [],
        "TOOL_NOT_ALLOWED",
        "OK",
    )


async def test_an_invalid_preset_counts_as_one_of_several(folder: Path) -> None:
    break_file(folder / "preset_play.json")
    assert (await started(folder)).active == "__empty__"


async def test_an_empty_folder_is_not_a_problem(tmp_path: Path) -> None:
    it = await started(tmp_path / "nowhere")
    assert (it.active, it.tools, it.publisher.config.problems) == ("__empty__", [], ())


@pytest.mark.requirement("P-19")
@pytest.mark.parametrize("named", ["nope", "../work", "broken"])
async def test_at_startup_an_unloadable_preset_is_replaced_by_the_empty_one(
    folder: Path, named: str
) -> None:
    break_file(folder / "preset_broken.json")
    write_servers(folder, "alpha", "beta", default=named)
    it = await started(folder)
    assert (it.active, it.tools, bool(it.publisher.config.problems)) == ("__empty__", [], True)


@pytest.mark.parametrize("pinned", [None, "late"], ids=["default", "pinned"])
async def test_a_named_preset_is_applied_when_its_file_is_created(
    folder: Path, pinned: str | None
) -> None:
    write_servers(folder, "alpha", "beta", default="late")
    it = await started(folder, pinned=pinned)
    write_preset(folder, "late", "beta/translate")
    await it.reloader.load()
    assert (it.active, it.publisher.config.problems) == ("late", ())


async def test_the_only_preset_is_applied_when_it_is_fixed(folder: Path) -> None:
    (folder / "preset_play.json").unlink()
    break_file(folder / "preset_work.json")
    it = await started(folder)
    assert (it.active, bool(it.publisher.config.problems)) == ("__empty__", True)
    write_preset(folder, "work", "alpha/search")
    await it.reloader.load()
    assert it.active == "work"


async def test_an_invalid_configuration_at_startup_means_zero_servers_and_a_problem(
    folder: Path,
) -> None:
    break_file(folder / "mcp.json")
    it = await started(folder, pinned="work")
    assert (
        it.pool.applied,
        it.tools,
        [problem.file for problem in it.publisher.config.problems],
    ) == (
        [{}],
        [],
        ["mcp.json"],
    )


async def test_the_initial_selection_happens_when_the_configuration_is_fixed(
    folder: Path,
) -> None:
    break_file(folder / "mcp.json")
    it = await started(folder)
    write_servers(folder, "alpha", "beta", default="play")
    await it.reloader.load()
    assert (it.active, it.tools, it.publisher.config.problems) == ("play", ["beta:translate"], ())


async def test_a_changed_default_is_selected(folder: Path) -> None:
    write_servers(folder, "alpha", "beta", default="work")
    it = await started(folder)
    write_servers(folder, "alpha", "beta", default="play")
    await it.reloader.load()
    assert (it.active, it.tools) == ("play", ["beta:translate"])


async def test_a_changed_default_does_not_affect_a_pinned_preset(folder: Path) -> None:
    it = await started(folder, pinned="work")
    write_servers(folder, "alpha", "beta", default="play")
    await it.reloader.load()
    assert it.active == "work"


async def test_a_removed_default_selects_nothing(folder: Path) -> None:
    write_servers(folder, "alpha", "beta", default="work")
    it = await started(folder)
    write_servers(folder, "alpha", "beta")
    await it.reloader.load()
    assert it.active == "work"


async def test_an_unloadable_default_keeps_the_last_valid_preset(folder: Path) -> None:
    write_servers(folder, "alpha", "beta", default="work")
    it = await started(folder)
    write_servers(folder, "alpha", "beta", default="nope")
    await it.reloader.load()
    assert (it.active, it.tools, bool(it.publisher.config.problems)) == (
        "work",
        ["alpha:search"],
        True,
    )


async def test_the_active_preset_follows_its_file_while_the_selected_one_is_unloadable(
    folder: Path,
) -> None:
    write_servers(folder, "alpha", "beta", default="work")
    it = await started(folder)
    write_servers(folder, "alpha", "beta", default="nope")
    write_preset(folder, "work")
    await it.reloader.load()
    assert (it.active, it.tools) == ("work", [])


@pytest.mark.requirement("P-21")
async def test_an_edit_of_the_active_preset_is_applied(folder: Path) -> None:
    it = await started(folder, pinned="work")
    write_preset(folder, "work", "alpha/drop")
    await it.reloader.load()
    assert (it.tools, it.code("alpha:search")) == (["alpha:drop"], "TOOL_NOT_ALLOWED")


@pytest.mark.requirement("P-21")
@pytest.mark.parametrize("other", ["play", "new"])
async def test_saving_another_presets_file_never_activates_it(folder: Path, other: str) -> None:
    it = await started(folder, pinned="work")
    write_preset(folder, other, "alpha/drop")
    await it.reloader.load()
    assert (it.active, it.tools) == ("work", ["alpha:search"])


@pytest.mark.requirement("P-19", "P-21")
async def test_a_first_preset_created_later_is_not_selected(tmp_path: Path) -> None:
    write_servers(tmp_path, "alpha")
    it = await started(tmp_path)
    write_preset(tmp_path, "work", "alpha/search")
    await it.reloader.load()
    assert (it.active, it.tools) == ("__empty__", [])


@pytest.mark.parametrize("file", ["mcp.json", "preset_work.json"])
@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "broken"])
async def test_an_invalid_or_deleted_file_keeps_the_last_valid_version_and_is_a_problem(
    folder: Path, file: str, *, deleted: bool
) -> None:
    it = await started(folder, pinned="work")
    (folder / file).unlink() if deleted else break_file(folder / file)
    await it.reloader.load()
    last = it.publisher.last_reload
    assert (it.tools, it.publisher.config.problems[0].file, last and last.ok) == (
        ["alpha:search"],
        file,
        False,
    )


@pytest.mark.parametrize("file", ["mcp.json", "preset_work.json"])
async def test_a_problem_ends_when_the_file_is_valid(folder: Path, file: str) -> None:
    good = (folder / file).read_bytes()
    it = await started(folder, pinned="work")
    break_file(folder / file)
    await it.reloader.load()
    (folder / file).write_bytes(good)
    await it.reloader.load()
    last = it.publisher.last_reload
    assert (it.publisher.config.problems, last and last.ok) == ((), True)


async def test_unknown_keys_are_warnings(folder: Path) -> None:
    write_preset(folder, "work", "alpha/search", colour="red")
    it = await started(folder, pinned="work")
    assert ([warning.file for warning in it.publisher.warnings], it.publisher.config.problems) == (
        ["preset_work.json"],
        (),
    )
