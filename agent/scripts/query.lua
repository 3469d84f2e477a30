-- Says who holds a key, or has it reserved; writes nothing.
-- KEYS: sentinel, key, fence record   ARGV: '1' with the holder's record, '0' without
-- {.., 'FREE', fence} | {.., 'HELD' | 'FORCED', fence, pttl, id [, the holder's text]}
local key, fence_key = KEYS[2], KEYS[3]
local value = get(key)
local stored = fence_read(fence_key)
local left = value == false and promised(stored[UNTIL])
if value == false and not left then
  return answer('FREE', stored[FENCE])
end
return standing(forced_id(value) and 'FORCED' or 'HELD', key, value, left, fence_key, stored, ARGV[1] == '1')
