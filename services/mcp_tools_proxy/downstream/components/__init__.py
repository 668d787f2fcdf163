"""Tools, prompts and resources of downstream servers, as components that the gateway calls.

A component's ``call`` sends a request by a RemoteCall, reads the result and maps the errors.
"""
