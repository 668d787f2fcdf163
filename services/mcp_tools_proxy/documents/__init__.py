"""Where documents come from: the repository, its search, its files, and the Retrieval Service.

``tenant_id`` is part of every call. Outside errors (files, engines, HTTP) become domain errors
here; nothing here knows HTTP routes or tools.
"""
