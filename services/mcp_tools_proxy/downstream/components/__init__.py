"""Tools, prompts and resources of downstream servers, as components that the gateway calls.

A component's ``call`` is the whole of it: send by a RemoteCall, read the result, map the errors.
"""
