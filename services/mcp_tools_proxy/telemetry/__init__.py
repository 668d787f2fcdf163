"""What operators see: one JSON log line for each event (contract §7) and Prometheus metrics.

Other rooms log with ``structlog.get_logger()`` and count on the ``Metrics`` they are given. No
label is open-ended: no tenant, user or document, ever.
"""
