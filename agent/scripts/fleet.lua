-- Puts the fleet's record beside the sentinel, on the node that was seen and where its record is the one that was seen.
-- A command that was long under way puts nothing.
-- KEYS: sentinel
-- ARGV: deadline_us, stamp, record, record_by, the run of the server that is known to have the latest record with it, or ''
-- {.., 'OK'} | {.., 'STALE'} | {.., 'SENTINEL'}; the stamp is the one afterwards
local why_not = objection(ARGV[1], ARGV[2])
if why_not then
  return answer(why_not)
end
local digest = string.sub(redis.sha1hex(ARGV[3]), 1, 8)
call('HSET', KEYS[1], 'record', ARGV[3], 'digest', digest, 'record_by', ARGV[4], 'sure', ARGV[5])
stamp = nonce .. ':' .. digest
return answer('OK')
