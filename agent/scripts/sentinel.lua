-- Reads the sentinel and the fleet's record. Creates the sentinel when it is absent and `make` is '1'. Replaces it, and
-- the record goes with it, when its constants differ and `replace` is '1', or when its stamp is the one in `replace`. If
-- its nonce is the one under which somebody saw the clock step, the nonce is replaced and its age begins anew.
-- KEYS: sentinel
-- ARGV: make ('1' or '0'), replace ('1', '0' or a stamp), a new nonce, wall_ms, ttl_max_ms, nodes, list_hash, the nonce
-- under which a step was seen or ''
-- {.., created ('1' or '0'), created_us, created_wall_ms, ttl_max_ms, nodes, list_hash, record, record_by, sure}: the
-- sentinel as it stands afterwards, and the record or ''; the stamp, as always, is the third. Without a sentinel the stamp is ''
-- and `created` comes last
local key = KEYS[1]
local differs = nonce ~= '' and stamp == ARGV[2]
if nonce ~= '' and ARGV[2] == '1' then
  local had = call('HMGET', key, 'ttl_max_ms', 'nodes', 'list_hash')
  differs = had[1] ~= ARGV[5] or had[2] ~= ARGV[6] or had[3] ~= ARGV[7]
end
local created = '0'
if (nonce == '' and ARGV[1] == '1') or differs then
  created = '1'
  nonce, stamp = ARGV[3], ARGV[3]
  call('DEL', key)
  call('HSET', key, 'nonce', nonce, 'created_us', time[1] .. string.format('%06d', time[2]),
             'created_wall_ms', ARGV[4], 'ttl_max_ms', ARGV[5], 'nodes', ARGV[6], 'list_hash', ARGV[7])
end
if nonce ~= '' and nonce == ARGV[8] then
  stamp = ARGV[3] .. string.sub(stamp, #nonce + 1)
  nonce = ARGV[3]
  call('HSET', key, 'nonce', nonce, 'created_us', time[1] .. string.format('%06d', time[2]),
             'created_wall_ms', ARGV[4])
end
if nonce == '' then
  return answer(created)
end
local all = call('HMGET', key, 'created_us', 'created_wall_ms', 'ttl_max_ms', 'nodes', 'list_hash', 'record',
                       'record_by', 'sure')
return answer(created, all[1], all[2], all[3], all[4], all[5], all[6] or '', all[7] or '', all[8] or '')
