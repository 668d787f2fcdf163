"""Texts that are markup: what a hostile server, document or caller would put on a page."""

PLANTED = (
    "<script data-planted>window.planted=1</script>"
    "<img src=x data-planted onerror=window.planted=2>"
    '"onmouseover="window.planted=3"data-planted="'
    "'onfocus='window.planted=4'data-planted='"
    "</textarea></title></pre><a data-planted href=javascript:window.planted=5>click</a>"
    '<div data-planted hx-get="/console/servers" hx-trigger="load">{{7*7}}</div>'
    "\u202egnp.exe\u2066\u200b"
)
"""Every way out of its place that a page could leave open; ``data-planted`` marks its elements."""

READABLE = "<script data-planted>window.planted=1</script>"
"""How it begins: what a person reads where it is shown as text."""

SHORT = "<b data-planted>bold</b>"
"""For what has to be short, as the name of a user."""

ADDRESS = "javascript:window.planted=6"
