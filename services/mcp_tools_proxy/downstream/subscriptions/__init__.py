"""Subscriptions to resources: which resources have listeners, and how a server is kept informed."""
