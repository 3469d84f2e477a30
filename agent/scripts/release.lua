-- Deletes the keys whose value is our token, or the mark that force.lua put in our token's place, and no others. Where a
-- key is to be kept a mark takes our token's place, and expires by itself.
-- (!) A key that is kept is never deleted, nor is one made: whatever comes late, or twice, finds what it should.
-- KEYS: sentinel, key...   ARGV: token, one per key; then, if any is to be kept, for how many ms, one per key ('0': it is
-- not; below 0: for as long, and a job may live)
-- .. marks: one character per key, '1' deleted, 'k' kept, '0' missing, 'f' another's
local count = #KEYS - 1
local marks = {}

local function judge(key, value, token, keep_ms)
  local word, id = mark_of(value)
  local is_our_mark = id and id == redis.sha1hex(token)
  if is_our_mark and word == 'forced' then
    call('DEL', key)
    return '1'
  elseif keep_ms ~= 0 and (value == token or is_our_mark) then
    word = keep_ms > 0 and 'kept' or 'left'
    call('SET', key, 'holdfast:' .. word .. ':' .. redis.sha1hex(token), 'PX', math.abs(keep_ms))
    return 'k'
  end
  return is_our_mark and 'k' or 'f'
end

for i = 1, count do
  local key, token = KEYS[i + 1], ARGV[i]
  local value, keep_ms = get(key), tonumber(ARGV[count + i] or '0')
  if value == false then
    marks[i] = '0'
  elseif value == token and keep_ms == 0 then
    call('DEL', key)
    marks[i] = '1'
  else
    marks[i] = judge(key, value, token, keep_ms)
  end
end
return line(table.concat(marks))
