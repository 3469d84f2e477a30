-- When a job last ran that is to run once in a period (agent/core/once.h). `seen` and `seen_turn` are the latest who
-- asked: (!) who is earlier than that writes nothing, for the later one has decided by what stood here.
-- KEYS: sentinel, the record
-- ARGV: deadline_us, stamp, fence, turn, step, at_us, id of the asker, retention_ms, how the run ended, who runs it
-- step: 'peek' notes nothing, and is answered by a node with another record, too; 'look' notes who asks, 'write' writes the
-- record, 'back' gives the start at at_us back, or with -1 the one before that this node knows, 'end' says how the asker's run ended
-- .. OK, seen, seen_turn, fence and turn of who wrote the record, at_us, id of the asker, how it ended, and who ran it ('' where
-- nobody did); '0' for what there is not | .. LOW, the fence that came later | .. STALE | .. SENTINEL
local key, fence, turn, step = KEYS[2], ARGV[3], ARGV[4], ARGV[5]
local why_not = objection(ARGV[1], ARGV[2])
if why_not and not (why_not == 'SENTINEL' and nonce ~= '' and step == 'peek') then
  return line(why_not)
end
local names = {'seen', 'seen_turn', 'fence', 'turn', 'at', 'asker', 'ended', 'by', 'ended_before', 'at_before', 'by_before'}
local stored = call('HMGET', key, unpack(names))
for i, name in ipairs(names) do
  stored[name] = stored[i] or (i == 8 or i == 11) and '' or '0'
end
if step ~= 'peek' then
  local seen = tonumber(stored.seen)
  if tonumber(fence) < seen or (tonumber(fence) == seen and tonumber(turn) < tonumber(stored.seen_turn)) then
    return line('LOW ' .. stored.seen)
  end
  call('HSET', key, 'seen', fence, 'seen_turn', turn)
end
local at = ARGV[6]
if at == '-1' then
  at = stored.fence == fence and stored.at_before or stored.at
end
if step == 'write' or step == 'back' then
  call('HSET', key, 'fence', fence, 'turn', turn, 'at', at, 'asker', ARGV[7])
end
if step == 'write' then
  -- (!) An asker that asks again finds its own record: what stood before that stays.
  if stored.fence ~= fence or stored.asker ~= ARGV[7] then
    call('HSET', key, 'ended_before', stored.ended, 'at_before', stored.at, 'by_before', stored.by)
  end
  call('HSET', key, 'ended', ARGV[9], 'by', ARGV[10])
elseif step == 'back' and stored.fence == fence then
  call('HSET', key, 'ended', stored.ended_before, 'by', stored.by_before)
elseif step == 'end' and stored.fence == fence then
  call('HSET', key, 'ended', ARGV[9])
end
-- (!) A shorter period shortens nothing: a longer one may have written the record.
if step ~= 'peek' and call('PTTL', key) < tonumber(ARGV[8]) then
  call('PEXPIRE', key, ARGV[8])
end
local record = {'OK'}
for i = 1, 7 do
  record[i + 1] = stored[names[i]]
end
return line(table.concat(record, ' ') .. ' ' .. stored.by)
