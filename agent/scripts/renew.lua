-- Sets the expiry anew of the keys whose value is our token; never creates one, and takes none of what was promised.
-- KEYS: sentinel, key...   ARGV: token of each key..., '1' if the keys are tracked, one ttl_ms for all keys or one for
-- each
-- .. marks: one character per key, '1' renewed, '0' missing, 'f' another's, 'x' ours was forced out
local count = #KEYS - 1
local tracked, ttl_ms = ARGV[count + 1] == '1', ARGV[count + 2]
local ends = until_text(ttl_ms) -- of all, if that is the one ttl_ms
local marks, values = {}, {}

-- For each command that reads in a script, Redis 7.0 remembers all keys of the script, and later servers the command's
-- own: so tracked keys are read together. Whose user may not MGET has each read below, and hears of no changes.
if tracked then
  local read = pcall('MGET', unpack(KEYS, 2))
  values = read.err and values or read
end
for i = 1, count do
  local key, token = KEYS[i + 1], ARGV[i]
  local value = values[i] or pcall('GET', key)
  if value == token then
    local lives_ms = prolong(key, ARGV[count + 1 + i] or ttl_ms)
    note_end(key, lives_ms == ttl_ms and ends or until_text(lives_ms))
    marks[i] = '1'
  else
    -- functions
    value = get(key) -- tells an error from a key of another type
    marks[i] = value == false and '0' or is_forced(value, token) and 'x' or 'f'
  end
end
if tracked then
  pcall('MGET', unpack(KEYS, 2)) -- our own write made the node forget who tracks a key
end
return line(table.concat(marks))
