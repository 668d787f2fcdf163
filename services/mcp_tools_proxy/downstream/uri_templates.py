"""URI templates of servers (RFC 6570)."""

from mcp_tools_proxy.wire.uris import MAX_URI_CHARS


class UriPattern:
    """A URI template, which stands for all URIs that it matches."""

    def __init__(self, template: str) -> None:
        """Parse a template. Raises ValueError."""
        # slow to import; a connected server, or restored definitions, imported the SDK before
        from mcp.shared.uri_template import UriTemplate  # noqa: PLC0415

        self._template = UriTemplate.parse(template)

    def __repr__(self) -> str:
        return f"<UriPattern {self._template}>"

    @property
    def has_variables(self) -> bool:
        """Whether it stands for more than one URI."""
        return bool(self._template.variable_names)

    def matches(self, uri: str) -> bool:
        """Return whether it stands for ``uri``; it does for none that is too long."""
        return self._template.match(uri, max_uri_length=MAX_URI_CHARS) is not None
