-- Offers a higher fence where our key stands: the second round of an acquire. With the same fence the record is written
-- again. Where our key does not stand nothing is written.
-- KEYS: sentinel, key, fence record
-- ARGV: token, fence, tag, the holder's text
-- .. OK | LOW, the fence that the node has, the tag if another token set it, or '' | .. GONE
local fence_key, token = KEYS[3], ARGV[1]
if get(KEYS[2]) ~= token then
  return line('GONE')
end
local accepted, fence, whose = fence_offer(fence_key, fence_read(fence_key), ARGV[2], ARGV[3], ARGV[4],
                                           until_text(call('PTTL', KEYS[2])))
return line((accepted and 'OK ' or 'LOW ') .. fence .. ' ' .. whose)
