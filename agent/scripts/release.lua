-- Deletes the keys whose value is our token, or the mark that took our token's place, and no others.
-- KEYS: sentinel, key...   ARGV: token, one per key
-- {.., marks}: one character per key, '1' deleted, '0' missing, 'f' another's
local marks = {}
for i = 2, #KEYS do
  local key = KEYS[i]
  local value = get(key)
  if value == ARGV[i - 1] or is_forced(value, ARGV[i - 1]) then
    redis.call('DEL', key)
    marks[#marks + 1] = '1'
  else
    marks[#marks + 1] = value == false and '0' or 'f'
  end
end
return answer(table.concat(marks))
