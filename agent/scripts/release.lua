-- Deletes the keys whose value is our token, or the mark that force.lua put in our token's place, and no others. Where a
-- key is to be kept a mark takes our token's place, and expires by itself.
-- (!) A key that is kept is never deleted, nor is one made: whatever comes late, or twice, finds what it should.
-- KEYS: sentinel, key...   ARGV: token, one per key; then, if any is to be kept, for how many ms, one per key ('0': it is
-- not; below 0: for as long, and a job may live)
-- .. marks: one character per key, '1' deleted, 'k' kept, '0' missing, 'f' another's
local count = #KEYS - 1
local marks = {}
for i = 1, count do
  local key, token, keep_ms = KEYS[i + 1], ARGV[i], ARGV[count + i] or '0'
  local value = pcall('GET', key)
  if value == false then
    marks[i] = '0'
  elseif value == token and keep_ms == '0' then
    call('DEL', key)
    marks[i] = '1'
  else
    -- functions
    value = get(key) -- tells an error from a key of another type
    local word, id = mark_of(value)
    local is_our_mark = id and id == redis.sha1hex(token)
    keep_ms = tonumber(keep_ms)
    if is_our_mark and word == 'forced' then
      call('DEL', key)
      marks[i] = '1'
    elseif keep_ms ~= 0 and (value == token or is_our_mark) then
      word = keep_ms > 0 and 'kept' or 'left'
      call('SET', key, 'holdfast:' .. word .. ':' .. redis.sha1hex(token), 'PX', math.abs(keep_ms))
      marks[i] = 'k'
    else
      marks[i] = is_our_mark and 'k' or 'f'
    end
  end
end
return line(table.concat(marks))
