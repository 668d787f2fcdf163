"""Spans of OpenTelemetry: what a call consists of, and how long each part takes.

``spans`` has what the other rooms use, and imports nothing of OpenTelemetry: without traces no span
object is made. ``otel_tracer`` and ``span_export`` are imported where traces are on; nothing else
may import OpenTelemetry. No attribute ever holds content: no argument, text, query, secret, or name
that nothing declares.
"""
