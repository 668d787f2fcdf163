"""Documents: the repository, its search, the files behind it, and the Retrieval Service.

``tenant_id`` is part of every call. Errors of files, engines and HTTP become domain errors here;
nothing here knows HTTP routes or tools.
"""
