-- Writes our token again on a node that lacks it while the lease is valid, and raises the node's fence to the lease's.
-- A higher fence there stays and is no obstacle: the lease has its quorum elsewhere, or its agent learns that it has
-- none.
-- KEYS: sentinel, key, fence record
-- ARGV: token, ttl_ms, deadline_us, stamp, fence, tag, the holder's text
-- .. OK, the fence that the node has, the tag if another token set it, or '' | .. TAKEN .. | .. STALE | .. SENTINEL
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
local _, fence, whose = fence_offer(fence_key, stored, ARGV[5], ARGV[6], ARGV[7], until_text(lives_ms))
return line('OK ' .. fence .. ' ' .. whose)
