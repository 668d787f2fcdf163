"""The Lua scripts by which records in Redis change, each in one step.

A record is a hash: ``state``, ``owner`` (whoever makes the call), ``lease`` (until when the owner
counts as there, in milliseconds) and ``content``, which is encrypted. What a tenant's records take
is a hash as well: bytes by the time at which they were added. All times are those of Redis.
"""

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

_RESERVE = """
local function reserve(key, size, ttl, limit)
  local slice = math.max(1, math.floor(ttl / 10))
  local used, sums = 0, redis.call('HGETALL', key)
  for i = 1, #sums, 2 do
    if tonumber(sums[i]) * slice < now - ttl - slice then
      redis.call('HDEL', key, sums[i])
    else
      used = used + tonumber(sums[i + 1])
    end
  end
  if used + size > limit then
    return false
  end
  redis.call('HINCRBY', key, math.floor(now / slice), size)
  redis.call('PEXPIRE', key, ttl + 2 * slice)
  return true
end
"""
"""Counts ``size`` bytes of a tenant in, in slices of a tenth of the time that records are kept."""

_WRITE = """
local function write(state, content, lease, ttl)
  redis.call('HSET', KEYS[1], 'state', state, 'owner', ARGV[1], 'content', content, 'lease', lease)
  redis.call('PEXPIRE', KEYS[1], ttl)
end
"""

CLAIM = f"""{_NOW}{_RESERVE}{_WRITE}
local found = redis.call('HMGET', KEYS[1], 'state', 'content', 'lease')
if found[1] then
  local ended = found[1] == 'running' and tonumber(found[3] or 0) < now
  return {{'found', ended and 'expired' or found[1], found[2] or ''}}
end
if now > tonumber(ARGV[8]) then
  return {{'late'}}
end
if not reserve(KEYS[2], tonumber(ARGV[5]), tonumber(ARGV[7]), tonumber(ARGV[6])) then
  return {{'full'}}
end
write('running', ARGV[2], now + ARGV[3], tonumber(ARGV[4]))
return {{'claimed'}}
"""
"""Reads a record, or creates it, unless it is later than it may be. KEYS: the record, its tenant's
bytes.

ARGV: owner, content, lease and time to live in milliseconds, size, the tenant's limit, the time for
which outcomes are kept, and the latest time.
"""

RENEW = f"""{_NOW}
local found = redis.call('HMGET', KEYS[1], 'owner', 'state')
if not found[1] then
  return 'lost'
elseif found[1] ~= ARGV[1] then
  return 'other'
end
if found[2] == 'running' then
  redis.call('HSET', KEYS[1], 'lease', now + ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 'renewed'
"""
"""Extends the lease of a record. ARGV: owner, lease and time to live in milliseconds."""

FINISH = f"""{_NOW}{_RESERVE}{_WRITE}
local found = redis.call('HMGET', KEYS[1], 'owner', 'state')
if found[1] and found[1] ~= ARGV[1] then
  return 'other'
elseif found[2] == 'done' then
  return 'written'
end
local ttl = tonumber(ARGV[4])
if ARGV[3] == 'done' and not reserve(KEYS[2], tonumber(ARGV[5]), ttl, tonumber(ARGV[6])) then
  return 'full'
end
write(ARGV[3], ARGV[2], 0, ttl)
return 'written'
"""
"""Writes how a call has ended. ARGV: owner, content, state, time to live, size, limit."""

RELEASE = f"""{_NOW}{_RESERVE}
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  redis.call('DEL', KEYS[1])
  reserve(KEYS[2], -tonumber(ARGV[2]), tonumber(ARGV[3]), math.huge)
end
"""
"""Deletes a record that is the owner's, and gives its bytes back. KEYS: see CLAIM.

ARGV: owner, size, and the time for which outcomes are kept, in milliseconds.
"""

PROBE = f"""{_NOW}
redis.call('SET', KEYS[1], '', 'PX', 1000)
return now
"""
"""Writes a key that ends soon: shows whether scripts may run, and anything can be written.

Returns the time of Redis in milliseconds.
"""
