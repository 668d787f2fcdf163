"""limits.json: its keys, the rules that it holds, and the last good version of them.

The rules are values of ``domain``; which calls they match is a matter of ``ratelimit``.
"""
