"""Hypothesis strategies for presets."""

from hypothesis import strategies as st

from mcp_tools_proxy.domain.configuration import Preset, Reference

References = st.SearchStrategy[tuple[Reference, ...]]

some_server_id = st.sampled_from(["a", "a-b", "b"])


def references_to(names: st.SearchStrategy[str], at_most: int | None = None) -> References:
    """Generate references to items of some_server_id; some are disabled."""
    one = st.builds(Reference, server_id=some_server_id, name=names, enabled=st.booleans())
    return st.lists(one, max_size=at_most).map(tuple)


def presets_of(references: References) -> st.SearchStrategy[Preset]:
    """Generate presets of ``references``; some leave prompts or resources unrestricted."""
    return st.builds(
        Preset,
        preset_id=st.just("p"),
        name=st.just("P"),
        tools=references,
        prompts=st.none() | references,
        resources=st.none() | references,
    )
