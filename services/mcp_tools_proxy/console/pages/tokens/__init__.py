"""The pages of bearer tokens: which there are, make one, revoke one."""
