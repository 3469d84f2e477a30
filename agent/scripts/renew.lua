-- Extends the keys that hold our tokens; never creates one.
-- KEYS: sentinel, key...   ARGV: token, ttl_ms, one pair per key
-- {.., marks}: one character per key, '1' extended, '0' missing, 'f' another's, 'x' ours was forced out
local marks = {}
for i = 2, #KEYS do
  local key, token, ttl_ms = KEYS[i], ARGV[2 * i - 3], ARGV[2 * i - 2]
  local value = get(key)
  if value == token then
    redis.call('PEXPIRE', key, ttl_ms)
    redis.call('GET', key) -- the node forgets who tracks the key at our own write: read it again
    marks[#marks + 1] = '1'
  else
    marks[#marks + 1] = value == false and '0' or is_forced(value, token) and 'x' or 'f'
  end
end
return answer(table.concat(marks))
