-- This text is put before every script. KEYS[1] is the sentinel. Every answer begins with the node's TIME and its stamp:
-- {seconds, microseconds, stamp, ...}. The stamp is the sentinel's nonce, with ':' and the digest of the fleet's record
-- where the node has one; '' without a sentinel.
local time = redis.call('TIME')
local has = redis.call('HMGET', KEYS[1], 'nonce', 'digest')
local nonce = has[1] or ''
local stamp = has[2] and nonce .. ':' .. has[2] or nonce
local RETENTION_MS = 604800000 -- of a fence record: seven days from its last acceptance; agent/core/refresh.h
local FORCED = 'holdfast:forced:' -- the mark that force.lua puts in a token's place: this, then sha1hex(token)

local function answer(...)
  return {time[1], time[2], stamp, ...}
end

-- Why nothing may be written: the node's TIME is past the deadline (STALE), or this is not the node that was validated,
-- or it goes by another record (SENTINEL). nil: the script may write. Microseconds since 1970 are exact in a double until the year 2255.
local function objection(deadline_us, validated)
  if time[1] * 1000000 + time[2] > tonumber(deadline_us) then
    return 'STALE'
  elseif nonce == '' or stamp ~= validated then
    return 'SENTINEL'
  end
end

-- The value of a string key; false: there is no key; nil: the key is of another type, so it is not ours.
local function get(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'table' then
    return value
  elseif string.find(value.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  error(value)
end

-- Makes `token` stand in `key` for `ttl_ms`. If the token is there already (a resend), its expiry is set anew. Returns
-- whether the token stands and, if not, the value that is in its way.
local function stand(key, token, ttl_ms)
  if redis.call('SET', key, token, 'NX', 'PX', ttl_ms) then
    return true
  end
  local value = get(key)
  if value ~= token then
    return false, value
  end
  redis.call('PEXPIRE', key, ttl_ms)
  return true
end

-- Reads a key's fence record {fence, tag, host, pid, uid, command, note, since}. The fence is a decimal string of at
-- most 53 bits. It is stored and told as the string that came, never printed from a number: Lua would write 1.7e+15.
-- The tag is sha1hex of the token that set the fence.
local function fence_read(fence_key)
  local stored = redis.call('HMGET', fence_key, 'fence', 'tag')
  return {fence = stored[1] or '0', tag = stored[2] or ''}
end

-- Writes fence and holder if the fence is higher than the stored one, or equal to it with the same tag. `holder`: host,
-- pid, uid, command, note, since. Returns whether the fence was accepted, the fence that the node has now and, if
-- another token set that one, its tag.
local function fence_offer(fence_key, stored, fence, token, holder)
  local tag = redis.sha1hex(token)
  local offered, present = tonumber(fence), tonumber(stored.fence) or 0
  if offered < present or (offered == present and tag ~= stored.tag) then
    return false, stored.fence, tag ~= stored.tag and stored.tag or ''
  end
  redis.call('HSET', fence_key, 'fence', fence, 'tag', tag, 'host', holder[1], 'pid', holder[2], 'uid', holder[3],
             'command', holder[4], 'note', holder[5], 'since', holder[6])
  redis.call('PEXPIRE', fence_key, RETENTION_MS)
  return true, fence, ''
end

-- The sha1hex(token) in a mark; nil: `value` is no mark.
local function forced_id(value)
  if value and #value == #FORCED + 40 and string.sub(value, 1, #FORCED) == FORCED then
    return string.sub(value, #FORCED + 1)
  end
end

-- Whether `value` is the mark of this very token.
local function is_forced(value, token)
  local id = forced_id(value)
  return id and id == redis.sha1hex(token)
end

-- The id of a hold, which tells holders apart and gives no token away: sha1hex of the token, as a fence record has it
-- for a tag; of a mark, the id of the token that it replaced. '' for a key of another type.
local function id_of(value)
  return forced_id(value) or value and redis.sha1hex(value) or ''
end

-- The answer when `value` stands in the key: {.., word, fence, pttl, id} and, if `record` is true and the fence record
-- has that id for its tag, host, pid, uid, command, note, since.
local function standing(word, key, value, fence_key, stored, record)
  local pttl, id = redis.call('PTTL', key), id_of(value)
  if not record or id == '' or id ~= stored.tag then
    return answer(word, stored.fence, pttl, id)
  end
  local holder = redis.call('HMGET', fence_key, 'host', 'pid', 'uid', 'command', 'note', 'since')
  return answer(word, stored.fence, pttl, id, unpack(holder))
end

-- The answer when `value`, another's, stands in the key: {.., 'TAKEN', fence, pttl} and, if the fence record is of that
-- same token, host, pid, uid, command, note, since.
local function taken(key, value, fence_key, stored)
  local pttl = redis.call('PTTL', key)
  if not value or id_of(value) ~= stored.tag then
    return answer('TAKEN', stored.fence, pttl)
  end
  local holder = redis.call('HMGET', fence_key, 'host', 'pid', 'uid', 'command', 'note', 'since')
  return answer('TAKEN', stored.fence, pttl, holder[1], holder[2], holder[3], holder[4], holder[5], holder[6])
end
