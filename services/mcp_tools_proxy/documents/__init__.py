"""Documents: repository, search, importers, stores and the Retrieval Service client.

Every call has a ``tenant_id``. Errors of files, engines and HTTP become domain errors here; this
package does not know HTTP routes.
"""
