"""Building blocks of asyncio code that know nothing of the gateway: back-off, time-outs, tasks."""
