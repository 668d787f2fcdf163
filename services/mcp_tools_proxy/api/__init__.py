"""HTTP: routes, request models, the envelope, error code → status (contract §1).

Handlers read the body themselves: FastAPI describes the routes in OpenAPI, while parsing, limits
and answers are exactly the contract's and cost as little as they can.
"""
