"""The routes that show which definitions are not as locked, and accept one."""
