-- The head of every script, and functions that some call: a script is sent with those that it calls and no others
-- (cmake/EmbedScripts.cmake). KEYS[1] is the sentinel. Every answer begins with the node's TIME and its stamp: seconds,
-- microseconds, stamp. The stamp is the sentinel's nonce, with ':' and the digest of the fleet's record where the node has
-- one; '' without a sentinel.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local has = call('HMGET', KEYS[1], 'nonce', 'digest')
local nonce = has[1] or ''
local stamp = has[2] and nonce .. ':' .. has[2] or nonce
local FENCE, TAG, DAY, UNTIL, OF = 1, 2, 3, 4, 5

-- The answer as an array.
local function answer(...)
  return {time[1], time[2], stamp, ...}
end

-- The answer as words with a space between them, of what is asked for with every lock: a node has more work with an array
-- than with all the rest of such a script.
local function line(words)
  return time[1] .. ' ' .. time[2] .. ' ' .. stamp .. ' ' .. words
end

-- Why nothing may be written: the node's TIME is past the deadline (STALE), or this is not the node that was validated,
-- or it goes by another record (SENTINEL). nil: the script may write. Microseconds since 1970 are exact in a double until the year 2255.
local function objection(deadline_us, validated)
  if time[1] * 1000000 + time[2] > tonumber(deadline_us) then
    return 'STALE'
  elseif nonce == '' or stamp ~= validated then
    return 'SENTINEL'
  end
end

-- The value of a string key; false: there is no key; nil: the key is of another type, so it is not ours.
local function get(key)
  local value = pcall('GET', key)
  if type(value) ~= 'table' then
    return value
  elseif string.find(value.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  error(value)
end

-- Whether `token` is what stands in a key that could not be set (a resend): then its expiry is set anew. If not, also the
-- value that is in its way.
local function stands_already(key, token, ttl_ms)
  local value = get(key)
  if value ~= token then
    return false, value
  end
  call('PEXPIRE', key, ttl_ms)
  return true
end

local function now_ms()
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The `until` of a key that ends in `left_ms`: when that is, in milliseconds since 1970 by the node's clock, and the beginning
-- of the sentinel's nonce.
local function until_text(left_ms)
  return now_ms() + left_ms .. ' ' .. string.sub(nonce, 1, 8)
end

-- For how many milliseconds from now on a key was promised to who set it; nil: it was released, or its time is over. (!) A promise
-- of any length counts: a clock that was ahead for a moment may have made it. One of another nonce counts for nothing: somebody
-- saw that the clock had stepped, and the node has no vote until such promises are over.
local function promised(text)
  local ends, by = string.match(type(text) == 'string' and text or '', '^(%d+) (.*)$')
  local left = ends and by == string.sub(nonce, 1, 8) and ends - now_ms() or 0
  return left > 0 and left or nil
end

-- Lets a key that stands live for `ttl_ms` more, and returns for how long it does. (!) A clock that is behind for a moment takes
-- nothing of what was promised. Only then the record is read: renew.lua says what a command that reads costs.
local function prolong(key, ttl_ms)
  if pcall('PEXPIRE', key, ttl_ms, 'GT') == 1 then -- servers before 7.0 do not know it
    return ttl_ms
  end
  local left = promised(pcall('HGET', 'holdfast:fence:' .. key, 'until'))
  if left and left > tonumber(ttl_ms) then
    ttl_ms = left
  end
  call('PEXPIRE', key, ttl_ms)
  return ttl_ms
end

-- Reads a key's fence record: {[FENCE] = .., [TAG] = .., [DAY] = .., [UNTIL] = .., [OF] = ..}. The fence is a decimal string
-- of at most 53 bits. It is stored and told as the string that came, never printed from a number: Lua would write 1.7e+15. The
-- tag is sha1hex of the token that set the fence. `day` is when the record was last given its time to live, in days by the
-- node's clock. `until` is when the key ends (until_text()), or '0' once it was released, and `of` is sha1hex of the token
-- that set the key; none: the tag is.
local function fence_read(fence_key)
  local stored = call('HMGET', fence_key, 'fence', 'tag', 'day', 'until', 'of')
  stored[FENCE], stored[TAG] = stored[FENCE] or '0', stored[TAG] or ''
  return stored
end

-- Notes in the key's fence record when the key ends; '0': it was released. A record that was missing is kept as any other;
-- one that cannot be written changes nothing.
local function note_end(key, text)
  local fence_key = 'holdfast:fence:' .. key
  if pcall('HSET', fence_key, 'until', text) == 1 then
    call('PEXPIRE', fence_key, 691200000)
  end
end

-- For how many milliseconds the key is another token's than that of `tag`, whether it stands or not (nil: it is not), and for
-- how many a key of `tag` that is set now has to live.
-- (!) A key may end early: the node's clock was ahead for a moment and nobody looked, or somebody deleted the key. Its
-- holder still believes in it. So nobody else gets the key before its time or its release, and the holder may write it again.
local function reserved(stored, tag, ttl_ms)
  local left = promised(stored[UNTIL])
  if (stored[OF] or stored[TAG]) ~= tag then
    return left, ttl_ms
  end
  return nil, math.max(left or 0, ttl_ms)
end

-- Writes fence and holder if the fence is higher than the stored one, or equal to it with the same tag. `holder` is the
-- text of agent/redis/holder_text.h, which begins with the fence. Returns whether the fence was accepted, the fence that the
-- node has now and, if another token set that one, its tag.
-- The record lives for seven days at least from its last acceptance (agent/core/refresh.h): for eight from the first one of
-- a day. A record that has no day is of an earlier form, and its other fields go.
-- The key is the token's, so in any case the record says so, and when it ends.
local function fence_offer(fence_key, stored, fence, tag, holder, ends)
  local offered, present = tonumber(fence), tonumber(stored[FENCE]) or 0
  if offered < present or (offered == present and tag ~= stored[TAG]) then
    call('HSET', fence_key, 'until', ends, 'of', tag)
    return false, stored[FENCE], tag ~= stored[TAG] and stored[TAG] or ''
  end
  if stored[OF] then
    call('HSET', fence_key, 'of', tag)
  end
  local day = tostring(math.floor(time[1] / 86400))
  if stored[DAY] == day then
    call('HSET', fence_key, 'fence', fence, 'tag', tag, 'holder', holder, 'until', ends)
    return true, fence, ''
  end
  if not stored[DAY] and stored[TAG] ~= '' then
    call('DEL', fence_key)
  end
  call('HSET', fence_key, 'fence', fence, 'tag', tag, 'holder', holder, 'until', ends, 'day', day)
  call('PEXPIRE', fence_key, 691200000)
  return true, fence, ''
end

-- The mark of force.lua, 'holdfast:forced:' and sha1hex of the token whose place it took: that sha1hex. nil: `value` is no
-- mark.
local function forced_id(value)
  if value and #value == 56 then
    return string.match(value, '^holdfast:forced:(%x+)$')
  end
end

-- Whether `value` is the mark by which this very token was forced out.
local function is_forced(value, token)
  local id = forced_id(value)
  return id and id == redis.sha1hex(token)
end

-- The id of a hold, which tells holders apart and gives no token away: sha1hex of the token, as a fence record has it
-- for a tag; of a mark, the id of the token that it replaced; without a key (false), of the token that set it last. '' for a
-- key of another type.
local function id_of(value, stored)
  if value == false then
    return stored[OF] or stored[TAG]
  end
  return forced_id(value) or value and redis.sha1hex(value) or ''
end

-- A token is released whose key ended early, and `value` stands there (false: none): nobody is kept from the key any more, and
-- who waits for it is told, as by the end of a key.
local function give_back(key, token, value)
  local stored = pcall('HMGET', 'holdfast:fence:' .. key, 'tag', 'of', 'until')
  if (stored[2] or stored[1]) == redis.sha1hex(token) and stored[3] and stored[3] ~= '0' then
    note_end(key, '0')
    if value == false then
      pcall('SET', key, token, 'PX', 1)
      call('DEL', key)
    end
  end
end

-- The answer when `value` stands in the key, or it is reserved for `left` milliseconds: {.., word, fence, pttl, id} and, if
-- `record` is true and the fence record has that id for its tag, the holder's text.
local function standing(word, key, value, left, fence_key, stored, record)
  local pttl, id = left or call('PTTL', key), id_of(value, stored)
  if not record or id == '' or id ~= stored[TAG] then
    return answer(word, stored[FENCE], pttl, id)
  end
  return answer(word, stored[FENCE], pttl, id, call('HMGET', fence_key, 'holder')[1] or '')
end

-- The answer when `value`, another's, stands in the key, or (false) the key is reserved for `left` milliseconds: .. TAKEN
-- FENCE PTTL and, if the fence record is of that same token, the holder's text.
local function taken(key, value, fence_key, stored, left)
  local words = string.format('TAKEN %s %.0f', stored[FENCE], value == false and left or call('PTTL', key))
  if value ~= nil and id_of(value, stored) == stored[TAG] then
    words = words .. ' ' .. (call('HMGET', fence_key, 'holder')[1] or '')
  end
  return line(words)
end
