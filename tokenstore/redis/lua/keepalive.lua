-- ARGV: session, its acknowledged acquires, ttl in microseconds. Returns the
-- entries of the session that are overtaken, each with the token that did it:
-- every acquire notes them in its own transaction, which is the proof of R7.
local s = ARGV[2]
local ok, why = live(s, ARGV[3])
if not ok then return why end
redis.call('HSET', P .. 'sessions', s, text(now + tonumber(ARGV[4])))
return {'ok', redis.call('HGETALL', P .. 'overtaken:' .. s)}
