"""Building blocks of asyncio code: back-off, time-outs, tasks.

They depend on nothing of the gateway.
"""
