"""Texts with markup, as sent by hostile servers, documents or callers."""

PLANTED = (
    "<script data-planted>window.planted=1</script>"
    "<img src=x data-planted onerror=window.planted=2>"
    '"onmouseover="window.planted=3"data-planted="'
    "'onfocus='window.planted=4'data-planted='"
    "</textarea></title></pre><a data-planted href=javascript:window.planted=5>click</a>"
    '<div data-planted hx-get="/console/servers" hx-trigger="load">{{7*7}}</div>'
    "\u202egnp.exe\u2066\u200b"
)
"""Every way to escape from its context; ``data-planted`` marks its elements."""

READABLE = "<script data-planted>window.planted=1</script>"
"""Its beginning, as a user reads it when shown as text."""

SHORT = "<b data-planted>bold</b>"
"""For short values, such as names of users."""

ADDRESS = "javascript:window.planted=6"
