-- Ends a hold whatever its holder does: a mark takes its token's place, so the token can be neither renewed nor healed.
-- The mark stays for the time that the token had left, or until the holder's own agent releases it, so that nobody else
-- gets the key while the holder may still believe that it has the lock. In place of a value that no agent can have
-- written the mark stays for `foreign_ms`: nobody knows for how long that value's holder believes in it.
-- (!) The value decides whether an agent wrote it, not the fence record: another's attempt may have overwritten the
-- record, or its retention is over.
-- KEYS: sentinel, key, fence record
-- ARGV: fence ('': any), id ('': any), foreign_ms, ttl_max_ms: no mark stays for longer than that
-- {.., 'FORCED', ..}, also when it was forced out before | {.., 'HELD', ..}: another hold than the one that is meant
-- has the key, and nothing was written | {.., 'FREE', fence}: nothing was written; the rest as query.lua has it
local key, fence_key, fence, wanted = KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local value = get(key)
local stored = fence_read(fence_key)
local reserved_ms = value == false and promised(stored[UNTIL])
if value == false and not reserved_ms then
  return answer('FREE', stored[FENCE])
end
local id = id_of(value, stored)
local agents = id == stored[TAG]
local meant = id ~= '' and (fence ~= '' or wanted ~= '') and (wanted == '' or wanted == id) and
              (fence == '' or (agents and fence == stored[FENCE]))
if not meant then
  return standing('HELD', key, value, reserved_ms, fence_key, stored, true)
end
if not forced_id(value) then
  -- the form of agent/base/token.h
  local is_token = reserved_ms or #value == 40 and not string.find(value, '[^0-9a-f]')
  local most = tonumber(is_token and ARGV[4] or ARGV[3])
  local left = reserved_ms or call('PTTL', key)
  value = 'holdfast:forced:' .. id
  call('SET', key, value, 'PX', math.max(1, left < 0 and most or math.min(left, most)))
end
return standing('FORCED', key, value, nil, fence_key, stored, true)
