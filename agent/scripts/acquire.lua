-- Takes a key with our token and offers the fence.
-- KEYS: sentinel, key, fence record
-- ARGV: token, ttl_ms, deadline_us, stamp, fence, tag, the holder's text
-- .. OK | LOW, the fence that the node has | .. TAKEN .. | .. STALE | .. SENTINEL
local key, fence_key, token = KEYS[2], KEYS[3], ARGV[1]
local why_not = objection(ARGV[3], ARGV[4])
if why_not then
  return line(why_not)
end
local stored = fence_read(fence_key) -- before the first write: a record that cannot be read ends the script here
local left, lives_ms = reserved(stored, ARGV[6], ARGV[2])
if left or not call('SET', key, token, 'NX', 'PX', lives_ms) then
  -- functions
  local stands, value = stands_already(key, token, lives_ms)
  if not stands then
    return taken(key, value, fence_key, stored, left)
  end
end
local accepted, fence = fence_offer(fence_key, stored, ARGV[5], ARGV[6], ARGV[7], until_text(lives_ms))
return line((accepted and 'OK ' or 'LOW ') .. fence)
