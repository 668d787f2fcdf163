import pytest

from mcp_tools_proxy.system.confinement import missing_for

_LACK = missing_for(read=True, write=True, calls=True)

needs_confinement = pytest.mark.skipif(
    _LACK is not None,
    reason=f"NOT TESTED: that processes are confined, because this machine lacks {_LACK}",
)
"""Skips a test, visibly in the summary, if the kernel cannot confine processes."""
