"""The program on a kernel without Landlock's system calls: ``python -m … serve``."""

import errno

from mcp_tools_proxy.cli.main import main
from mcp_tools_proxy.system import system_calls
from mcp_tools_proxy.system.system_calls import forbid_new_privileges

if __name__ == "__main__":
    system_calls._NUMBERS = {"landlock_create_ruleset": (444, 444)}
    forbid_new_privileges()
    system_calls.deny_calls([("landlock_create_ruleset", errno.ENOSYS, None)])
    main()
