import re
from pathlib import Path

from mcp_tools_proxy.cli.check_command import NOTES, UpgradeNote, upgrade_notes
from mcp_tools_proxy.settings.settings import Settings

ROOT = Path(__file__).parents[3]


def test_notes_relevant_to_the_configuration_are_shown() -> None:
    beyond_loopback = UpgradeNote(
        version="0.2.0", text="hosts", concerns=lambda settings, _: settings.host == "::"
    )
    with_servers = UpgradeNote(
        version="0.2.0", text="servers", concerns=lambda _, servers: len(servers) > 0
    )
    notes = (beyond_loopback, with_servers)
    assert upgrade_notes(Settings(host="::"), (), notes) == ["hosts"]
    assert upgrade_notes(Settings(), (), notes) == []


def test_every_note_refers_to_a_version_with_advice_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.split(r"^## (.+)\n", changelog, flags=re.MULTILINE)[1:]
    with_advice = {
        heading.split()[0]
        for heading, text in zip(versions[::2], versions[1::2], strict=True)
        if "### Before you upgrade" in text
    }
    assert {note.version for note in NOTES} - with_advice == set()


def test_the_changelog_begins_with_unreleased_changes_and_the_version_of_the_code() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.+)"', project, re.MULTILINE)
    headings = re.findall(r"^## (\S+)", changelog, re.MULTILINE)
    assert headings[:2] == ["Unreleased", version]
