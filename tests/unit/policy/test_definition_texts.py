import hashlib
import json
import unicodedata
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.policy.definitions.canonical import canonical_json, digest_of
from mcp_tools_proxy.policy.definitions.comparison import read_definition
from mcp_tools_proxy.policy.definitions.difference import Edit, differences, marked
from mcp_tools_proxy.policy.definitions.flags import KnownNames
from mcp_tools_proxy.policy.presets import LOCAL_TOOLS
from mcp_tools_proxy.wire.text import HIDDEN, printable
from tests.support.examples import at_most
from tests.support.tables import each_row

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def shuffled(value: Any) -> Any:
    """Return an equal value with reversed keys."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [shuffled(item) for item in value]
    return value


@at_most(40)
@given(_JSON)
def test_equal_values_have_one_canonical_form(value: Any) -> None:
    canonical = canonical_json(value)
    assert canonical_json(shuffled(value)) == canonical
    read = json.loads(canonical)
    assert read == value
    assert canonical_json(read) == canonical


@each_row(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.0, 2.5, True, None]}, '{"a":[1,2.5,true,null],"b":1}'),
        ({"\ufb33": 1, "\U0001f600": 2, "é": 3}, '{"é":3,"\U0001f600":2,"\ufb33":1}'),
        ('a\n\x01"\\é/', '"a\\n\\u0001\\"\\\\é/"'),
    ],
)
def test_the_canonical_form_is_that_of_rfc_8785(value: Any, text: str) -> None:
    assert canonical_json(value) == text
    assert digest_of(text) == hashlib.sha256(text.encode()).hexdigest()


def flags_of(descriptor: dict[str, Any]) -> list[tuple[str, str]]:
    found = read_definition(DefinitionKind.TOOL, descriptor)
    return [(flag.reason.value, flag.field) for flag in found.flags]


@each_row(
    ("hidden", "reason"),
    [
        ("\u202e", "bidi_control"),
        ("\u2066", "bidi_control"),
        ("\u200f", "bidi_control"),
        ("\U000e0041", "tag_character"),
        ("\u200b", "zero_width"),
        ("\ufeff", "zero_width"),
        ("\u3164", "zero_width"),
        ("\U000e0101", "zero_width"),
        ("!\ufe0f\ufe0e", "zero_width"),
        ("\u00ad", "format_character"),
        ("\u2062", "format_character"),
        ("\x1b", "format_character"),
        ("\x08", "format_character"),
        ("<!-- psst -->", "html_comment"),
    ],
)
def test_each_type_of_hidden_text_is_flagged_and_escaped(hidden: str, reason: str) -> None:
    text = f"Find{hidden} notes."
    assert flags_of({"name": "a", "description": text}) == [(reason, "description")]
    schema = {"properties": {f"q{hidden}": {"description": "plain"}}}
    assert flags_of({"name": "a", "inputSchema": schema}) == [(reason, "inputSchema")]
    if reason != "html_comment":
        assert not HIDDEN.search(printable(text))


def test_ordinary_texts_are_not_flagged() -> None:
    text = "Finds «заметки» ⚠️ with \\b and \\u0041,\n\ttabs, and café."
    assert flags_of({"name": "find", "title": "🙂", "description": text}) == []


def test_every_format_character_is_flagged_as_hidden() -> None:
    format_characters = (chr(i) for i in range(0x110000) if unicodedata.category(chr(i)) == "Cf")
    assert [hex(ord(it)) for it in format_characters if not HIDDEN.search(it)] == []


TOOLS = (("notes", "find"), ("github", "search"), ("github", "github__open"), ("team", "find"))


@each_row(
    ("server_id", "name", "suspicious"),
    [
        ("team", "find", False),
        ("team", "notes__find", True),
        ("team", "notes:find", True),
        ("team", "Notes.Find", True),
        ("team", "sеarch", True),  # a Cyrillic letter
        ("team", "sear\u200bch", False),  # flagged for its character
        ("team", "Read_Doc_Pages", True),
        ("team", "read-doc-pages", False),
        ("team", "read-doc_pages", True),
        ("team", "read--doc-pages", True),
        ("team", "ｒead_doc_pages", True),
        ("github", "github__open", False),
        ("github", "search", False),
    ],
)
def test_lookalike_names_are_flagged(server_id: str, name: str, suspicious: bool) -> None:
    names = KnownNames.of(("notes", "github", "team"), ["read_doc_pages"], TOOLS)
    key = DefinitionKey(server_id, DefinitionKind.TOOL, name)
    assert names.is_lookalike(key) == suspicious


EXCEL = (
    *(("excel", "copy_sheet"), ("excel", "format_range"), ("sheets-mcp", "add_row")),
    *(("office", "excel_copy_sheet"), ("office", "excel_format_range")),
)


@each_row(
    ("server_id", "name", "suspicious"),
    [
        ("office", "excel_copy_sheet", False),
        ("office", "excel_format_range", False),
        ("office", "excel-copy-sheet", False),
        ("office", "sheets_mcp_add_row", False),
        ("elasticsearch", "search_documents", False),
        ("elasticsearch", "list_documents", False),
        ("elasticsearch", "search-documents", False),
        ("elasticsearch", "search-dосuments", True),  # two Cyrillic letters
        ("elasticsearch", "seаrch_documents", True),  # a Cyrillic letter
        ("office", "excel__copy_sheet", True),
        ("office", "excel：copy_sheet", True),  # a fullwidth colon
        ("office", "excel.copy_sheet", True),
        ("office", "exce1_copy_sheet", True),  # the digit
        ("office", "еxcel_copy_sheet", True),  # a Cyrillic letter
        ("office", "excel_copy__sheet", True),
    ],
)
def test_names_with_a_topic_prefix_and_equal_names_are_not_lookalikes(
    server_id: str, name: str, suspicious: bool
) -> None:
    servers = ("excel", "office", "elasticsearch", "sheets-mcp")
    names = KnownNames.of(servers, ["search_documents", "list_documents"], EXCEL)
    assert names.is_lookalike(DefinitionKey(server_id, DefinitionKind.TOOL, name)) == suspicious


NAMES_OF_REAL_SERVERS = {
    "filesystem": ("read_file", "read_text_file", "read_multiple_files", "list_directory"),
    "desktop-commander": ("read_file", "read_multiple_files", "list_directory", "search_code"),
    "mongodb": ("create-index", "list-databases", "delete-many", "drop-index"),
    "elasticsearch": ("create_index", "search_documents", "list_indices", "delete_index"),
    "meilisearch": ("search-documents", "list-documents", "create-index", "get-document"),
    "motherduck": ("list_databases", "list_tables", "execute_query"),
    "notion": ("API-get-user", "API-get-users", "API-post-search"),
    "gitlab": ("create_issue", "search_repositories", "get_file_contents"),
    "github": ("create_issue", "search_repositories", "get_file_contents", "list_issues"),
    "hubspot": ("hubspot-list-objects", "hubspot-get-user-details"),
    "excel": ("copy_worksheet", "create_table", "format_range"),
    "excel-negokaz": ("excel_copy_sheet", "excel_create_table", "excel_format_range"),
    "files": ("read_files", "read_file1", "readFile", "list_directories"),
}


@each_row("server_id", NAMES_OF_REAL_SERVERS)
def test_names_of_real_servers_are_not_flagged_as_lookalikes(server_id: str) -> None:
    tools = [(owner, it) for owner, names in NAMES_OF_REAL_SERVERS.items() for it in names]
    names = KnownNames.of(NAMES_OF_REAL_SERVERS, LOCAL_TOOLS, tools)
    keys = [DefinitionKey(s, DefinitionKind.TOOL, name) for s, name in tools if s == server_id]
    assert [key.name for key in keys if names.is_lookalike(key)] == []


def test_a_difference_has_a_path_and_shows_words() -> None:
    schema = {"properties": {"q": {"description": "What to find"}}}
    before = {"name": "find", "inputSchema": schema}
    after = {
        "name": "find",
        "inputSchema": {"properties": {"q": {"description": "What to\u200b steal"}}},
        "title": "Find",
    }
    found = differences(before, after)
    assert [(it.place, marked(it.pieces)) for it in found] == [
        ("inputSchema.properties.q.description", "What [-to-]{+to\\u200b+} [-find-]{+steal+}"),
        ("title", "{+Find+}"),
    ]


def test_long_texts_are_compared_at_their_ends() -> None:
    words = " ".join(map(str, range(900)))
    (found,) = differences({"description": words}, {"description": words.replace("450", "x")})
    assert [it.edit for it in found.pieces] == [Edit.SAME, Edit.REMOVED, Edit.ADDED, Edit.SAME]
    assert [it.text for it in found.pieces[1:3]] == ["450", "x"]
