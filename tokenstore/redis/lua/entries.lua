-- ARGV: session, the last entry that was read or '', how many. In order, so
-- that what stays is not missed, whatever comes and goes between two calls.
local from = ARGV[3] == '' and '-' or '(' .. ARGV[3]
return {'ok', redis.call('ZRANGEBYLEX', P .. 'own:' .. ARGV[2], from, '+', 'LIMIT', 0, ARGV[4])}
