-- Says who holds a key; writes nothing.
-- KEYS: sentinel, key, fence record   ARGV: '1' with the holder's record, '0' without
-- {.., 'FREE', fence} | {.., 'HELD', fence, pttl, id} and, if it is wanted and the fence record is that very token's,
-- host, pid, uid, command, note, since. The id is sha1hex of the value: it tells two holders apart and is no token; ''
-- for a key of another type.
local key, fence_key = KEYS[2], KEYS[3]
local value = get(key)
local stored = fence_read(fence_key)
if value == false then
  return answer('FREE', stored.fence)
end
local pttl = redis.call('PTTL', key)
local id = value and redis.sha1hex(value) or ''
if ARGV[1] ~= '1' or id ~= stored.tag or id == '' then
  return answer('HELD', stored.fence, pttl, id)
end
return answer('HELD', stored.fence, pttl, id,
              unpack(redis.call('HMGET', fence_key, 'host', 'pid', 'uid', 'command', 'note', 'since')))
