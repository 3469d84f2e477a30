-- Says who holds a key; writes nothing.
-- KEYS: sentinel, key, fence record   ARGV: '1' with the holder's record, '0' without
-- {.., 'FREE', fence} | {.., 'HELD' | 'KEPT' | 'FORCED', fence, pttl, id [, the holder's text]}
local key, fence_key = KEYS[2], KEYS[3]
local value = get(key)
local stored = fence_read(fence_key)
if value == false then
  return answer('FREE', stored[FENCE])
end
local word = mark_of(value)
word = word == 'forced' and 'FORCED' or word == 'kept' and 'KEPT' or 'HELD'
return standing(word, key, value, fence_key, stored, ARGV[1] == '1')
