from pathlib import Path

from tests.support.configuration import Json, make_agent, make_preset
from tests.support.tables import each_row
from tests.unit.config.config_folder import LoadedFolder


def test_loading_unchanged_files_again_gives_an_equal_configuration(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", client_ids=["x"], preset="work"), make_agent("b"))
    before = it.now
    assert it.load() == before


@each_row(
    "changed",
    [
        {"client_ids": ["beta"]},
        {"exclude": ["x"]},
        {"preset": "play"},
        {"name": "other"},
    ],
)
def test_a_changed_profile_gives_an_unequal_configuration(tmp_path: Path, changed: Json) -> None:
    it = LoadedFolder(tmp_path, make_agent("a"))
    before = it.now
    it.write_agents(make_agent(**{"name": "a", **changed}))
    assert it.now != before


def test_an_edit_of_an_agents_preset_gives_an_unequal_configuration(
    tmp_path: Path,
) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", preset="work"))
    before = it.now
    it.write_preset(make_preset("work", tools=[("alpha", "drop")]))
    assert it.now != before


def many_agents() -> list[Json]:
    """200 agents: every second one names a preset, every tenth has other exclusions."""
    return [
        make_agent(
            f"agent-{index}",
            client_ids=["alpha"],
            exclude=["drop", f"own-{index}"] if index % 10 == 0 else ["drop"],
            preset="work" if index % 2 else "play",
        )
        for index in range(200)
    ]


def test_200_agents_share_common_objects(tmp_path: Path) -> None:
    visibilities = LoadedFolder(tmp_path, *many_agents()).now.visibilities.values()
    scopes = {id(visibility.preset) for visibility in visibilities}
    assert (len(visibilities), len(set(map(id, visibilities))), len(scopes)) == (200, 22, 2)


def test_unchanged_parts_stay_the_same_objects(tmp_path: Path) -> None:
    agents = many_agents()
    it = LoadedFolder(tmp_path, *agents)
    before = it.now.visibilities
    it.write_agents(make_agent("agent-0", client_ids=[]), *agents[1:])
    after = it.now.visibilities
    assert [name for name in after if after[name] is not before[name]] == ["agent-0"]


def test_an_edited_preset_changes_only_its_agents(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", preset="work"), make_agent("b", preset="play"))
    before = it.now.visibilities
    it.write_preset(make_preset("work"))
    after = it.now.visibilities
    assert (after["a"] is before["a"], after["b"] is before["b"]) == (False, True)


def test_a_reformatted_preset_stays_the_same_object(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", preset="work"))
    before = it.now.visibilities["a"]
    path = tmp_path / "preset_work.json"
    path.write_text(path.read_text(encoding="utf-8") + "\n\n", encoding="utf-8")
    assert it.load().visibilities["a"] is before


def test_a_switch_of_the_active_preset_keeps_the_agents(tmp_path: Path) -> None:
    it = LoadedFolder(tmp_path, make_agent("a", preset="work"))
    loaded = it.files.load_preset("play")
    with_preset = it.now.with_preset(loaded, persisted=False)
    assert (with_preset.preset.preset_id, with_preset.visibilities) == ("play", it.now.visibilities)
