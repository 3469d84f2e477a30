-- Deletes the keys whose value is our token, or the mark that force.lua put in our token's place, and no others.
-- (!) It deletes that mark whenever it comes: no agent sends it while a job of the hold may live.
-- KEYS: sentinel, key...   ARGV: token of each key
-- .. marks: one character per key, '1' deleted, '0' missing, 'f' another's
local count = #KEYS - 1
local marks = {}
for i = 1, count do
  local key, token = KEYS[i + 1], ARGV[i]
  local value = pcall('GET', key)
  if value == token then
    call('DEL', key)
    note_end(key, '0')
    marks[i] = '1'
  else
    -- functions
    value = get(key) -- tells an error from a key of another type
    if is_forced(value, token) then
      call('DEL', key)
      note_end(key, '0')
      marks[i] = '1'
    else
      give_back(key, token, value)
      marks[i] = value == false and '0' or 'f'
    end
  end
end
return line(table.concat(marks))
