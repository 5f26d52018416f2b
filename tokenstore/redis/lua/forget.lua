-- ARGV: key, and its record as it was seen: token, when, holder.
local key = ARGV[2]
local rec = record(key)
if rec == false then return {'damaged', key} end
if rec == nil then return {'ok'} end
if rec.token ~= ARGV[3] or rec.at ~= ARGV[4] or rec.holder ~= ARGV[5] then return {'changed'} end
if redis.call('ZCARD', P .. 'open:' .. key) > 0 then return {'open'} end
if redis.call('HEXISTS', P .. 'leases', key) == 1 then return {'leased'} end
redis.call('DEL', P .. 'record:' .. key)
redis.call('ZREM', P .. 'keys', key)
return {'ok'}
