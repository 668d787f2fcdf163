"""Hypothesis strategies: any JSON, and almost valid files."""

from hypothesis import strategies as st

from mcp_tools_proxy.config.server_entry import ServerEntry

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
"""Any JSON value, including numbers that are not valid JSON."""

STRICT_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
"""Any valid JSON value that round-trips."""

_ENTRY_KEYS = st.sampled_from([field.alias for field in ServerEntry.model_fields.values()])
_TEXTS = st.sampled_from(["stdio", "ws", "HTTP", "http://h", "ws://h", "${A}", "${", "{A}", " "])
_VALUES = _TEXTS | st.lists(_TEXTS) | st.dictionaries(_TEXTS, _TEXTS) | JSON
_ENTRIES = st.dictionaries(_ENTRY_KEYS | st.text(max_size=4), _VALUES) | JSON

CONFIGURATIONS = JSON | st.fixed_dictionaries(
    {"mcpServers": st.dictionaries(st.sampled_from(["a", "b-c", "a:b"]), _ENTRIES)},
    optional={"defaultPresetId": JSON, "capabilitiesRefreshIntervalSeconds": JSON},
)

_REFERENCES = st.lists(
    st.dictionaries(
        st.sampled_from(["serverId", "toolName", "promptName", "resourceKey", "enabled"]),
        st.text(max_size=4) | st.booleans(),
    )
)

AGENTS = JSON | st.fixed_dictionaries(
    {
        "agents": st.lists(
            st.fixed_dictionaries(
                {"name": st.text(max_size=4) | JSON},
                optional={
                    "client_ids": st.lists(_TEXTS) | JSON,
                    "exclude_components": st.lists(_TEXTS) | JSON,
                    "preset": st.sampled_from(["work", "__empty__"]) | JSON,
                },
            ),
            max_size=3,
        )
        | JSON
    }
)

PRESETS = JSON | st.fixed_dictionaries(
    {"id": st.just("work"), "name": st.text(max_size=4)},
    optional={
        "tools": _REFERENCES | JSON,
        "prompts": _REFERENCES | JSON,
        "resources": _REFERENCES | JSON,
        "createdAtEpochMillis": JSON,
    },
)
