-- ARGV: key, the lease that is believed to stand there, the one that shall, the
-- channel of leases; and for a grant the token, the counter as it is believed to
-- be, and as it shall be. '' is nobody's lease and a counter of 0. Returns what
-- leasestate does, behind 'done' where the swap was made.
--
-- Everything is read and decided before the first write.
local key, was, next, channel, token = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local lease = redis.call('HGET', P .. 'leases', key) or ''
local granted = redis.call('GET', P .. 'granted') or ''
local rec = record(key)
local holds = lease == was
if token then
  holds = holds and granted == ARGV[7] and rec ~= false and (rec == nil or compare(rec.token, token) < 0)
end
if not holds then
  return {'ok', lease, granted, rec == nil and '' or rec and rec.token .. rec.at .. rec.holder or '?'}
end
if token then redis.call('SET', P .. 'granted', ARGV[8]) end
if next == '' then
  redis.call('HDEL', P .. 'leases', key)
else
  redis.call('HSET', P .. 'leases', key, next)
end
if token or next == '' then redis.call('PUBLISH', channel, key) end
return {'done'}
