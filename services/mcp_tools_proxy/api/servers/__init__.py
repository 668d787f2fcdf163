"""The routes that show the downstream servers and what each offers, and reconnect one."""
