from typing import Any

Json = dict[str, Any]


def request(method: str = "tools/call", **params: object) -> Json:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def reply(**result: object) -> Json:
    return {"jsonrpc": "2.0", "id": 7, "result": result}


def failure(message: object, **more: object) -> Json:
    return {"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": message, **more}}
