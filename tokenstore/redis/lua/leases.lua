-- ARGV: cursor. Returns the next one, and some keys with their leases; one may
-- come twice.
local found = redis.call('HSCAN', P .. 'leases', ARGV[2], 'COUNT', 1000)
return {'ok', found[1], found[2]}
