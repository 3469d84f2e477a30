-- When a job last ran that is to run once in a period (agent/core/once.h). `seen` and `seen_turn` are the latest who
-- asked: (!) who is earlier than that writes nothing, for the later one has decided by what stood here.
-- KEYS: sentinel, the record
-- ARGV: deadline_us, stamp, fence, turn, at_us to write or '', id of the asker, retention_ms
-- .. OK, fence and turn of who wrote the record, at_us, id of the asker; '0' for what there is not | .. LOW, the
-- fence that came later | .. STALE | .. SENTINEL
local key, fence, turn = KEYS[2], ARGV[3], ARGV[4]
local why_not = objection(ARGV[1], ARGV[2])
if why_not then
  return line(why_not)
end
local stored = call('HMGET', key, 'seen', 'seen_turn', 'fence', 'turn', 'at', 'asker')
local seen, seen_turn = tonumber(stored[1] or '0'), tonumber(stored[2] or '0')
if tonumber(fence) < seen or (tonumber(fence) == seen and tonumber(turn) < seen_turn) then
  return line('LOW ' .. stored[1])
end
call('HSET', key, 'seen', fence, 'seen_turn', turn)
if ARGV[5] ~= '' then
  call('HSET', key, 'fence', fence, 'turn', turn, 'at', ARGV[5], 'asker', ARGV[6])
end
-- (!) A shorter period shortens nothing: a longer one may have written the record.
if call('PTTL', key) < tonumber(ARGV[7]) then
  call('PEXPIRE', key, ARGV[7])
end
local record = {stored[3] or '0', stored[4] or '0', stored[5] or '0', stored[6] or '0'}
return line('OK ' .. table.concat(record, ' '))
