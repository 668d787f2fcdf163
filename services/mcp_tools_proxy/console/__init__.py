"""The console: web pages for users and operators of the gateway.

Each page and button calls the HTTP API in process with the token of the session. The API checks
permissions and tenants and records operations, as for any other client.
"""
