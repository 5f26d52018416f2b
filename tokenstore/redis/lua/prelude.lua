-- What stands in front of every script. KEYS[1] is the prefix of all names,
-- ARGV[1] the content of the marker. A Redis that came back empty, or is
-- another one, has no such marker: it would take every token for a new one.
local P = KEYS[1]
if redis.call('GET', P .. 'store') ~= ARGV[1] then return {'foreign'} end

-- Microseconds: Lua's numbers hold them exactly.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local function text(number) return string.format('%016.0f', number) end

-- alive tells whether session s is. Whoever finds it expired writes that down
-- first: the clock may step back, and gone is final. A session never is a key
-- that Redis expires, for the same reason, and because it may evict such keys.
local function alive(s)
  local ends = redis.call('HGET', P .. 'sessions', s)
  if not ends or ends == 'gone' then return false end
  if now < tonumber(ends) then return true end
  redis.call('HSET', P .. 'sessions', s, 'gone')
  return false
end

-- live is alive, and returns the answer where s is not. acked is how many
-- acquires of s its owner knows to be recorded. Where fewer are, the store was
-- rolled back by a failover or a crash: entries under which the owner sends are
-- not there any more, so the session must not go on.
local function live(s, acked)
  if not alive(s) then return false, {'over'} end
  if tonumber(redis.call('HGET', P .. 'acquires', s) or '0') < tonumber(acked) then
    redis.call('HSET', P .. 'sessions', s, 'gone')
    return false, {'lost'}
  end
  return true
end

-- record reads the record of a key: token (24 bytes), when (16 digits), holder.
-- It returns nothing where there is none, and false where it cannot be read.
local function record(key)
  local raw = redis.pcall('GET', P .. 'record:' .. key)
  if not raw then return nil end
  if type(raw) ~= 'string' or #raw < 40 or raw:sub(25, 40):find('%D') then return false end
  return {token = raw:sub(1, 24), at = raw:sub(25, 40), holder = raw:sub(41)}
end

-- compare compares tokens byte for byte: Lua's own < goes by the locale.
local function compare(a, b)
  if a == b then return 0 end
  for i = 1, 24 do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y and -1 or 1 end
  end
  return 0
end
