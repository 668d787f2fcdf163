"""The console: pages by which people look after the gateway in a browser.

Each page and button is a request to the HTTP API, made in process with the token that its user
signed in with, so the API checks rights and tenants, and records what is done, as for any client.
"""
