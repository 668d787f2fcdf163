"""The HTTP API: endpoints, request models, lists, status routes, OpenAPI (contract §1).

FastAPI only describes the routes in OpenAPI. Endpoints read the body, so that parsing, limits and
errors are exactly the contract's, and cost little. Docstrings of models and operations are part of
the OpenAPI document.
"""
