-- Finds fence records whose holder still holds the key, in a bounded piece of all keys from a cursor on. Writes
-- nothing.
-- KEYS: sentinel   ARGV: cursor ('0': from the start), pattern of the fence records' keys
-- {.., cursor ('0': that was the last piece), {key, id, fence, pttl, the holder's text}...}
local FENCE_PREFIX = 'holdfast:fence:'
local STEP, FOUND_MOST, SEEN_MOST = 48, 32, 384 -- so that the script takes the node less than a millisecond
local cursor, found, seen = ARGV[1], {}, 0

local function look_at(fence_key)
  local record = pcall('HMGET', fence_key, 'tag', 'fence', 'holder')
  local key = string.sub(fence_key, #FENCE_PREFIX + 1)
  local value = not record.err and record[1] and get(key)
  if value and id_of(value) == record[1] then
    found[#found + 1] = {key, record[1], record[2], call('PTTL', key), record[3] or ''}
  end
end

repeat
  local page = call('SCAN', cursor, 'MATCH', ARGV[2], 'COUNT', STEP)
  cursor = page[1]
  for _, fence_key in ipairs(page[2]) do
    look_at(fence_key)
  end
  seen = seen + STEP
until cursor == '0' or #found >= FOUND_MOST or seen >= SEEN_MOST
return answer(cursor, unpack(found))
