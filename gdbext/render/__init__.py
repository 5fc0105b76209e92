"""Renderers: a report as text, HTML or DOT. They see only the report, never the target."""
