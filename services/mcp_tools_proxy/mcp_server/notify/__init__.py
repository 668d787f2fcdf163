"""Notifications to MCP clients: lists that changed, resources that were updated."""
