-- ARGV: key. Returns its lease, the counter, and its record as look does.
local rec = record(ARGV[2])
return {'ok', redis.call('HGET', P .. 'leases', ARGV[2]) or '', redis.call('GET', P .. 'granted') or '',
  rec == nil and '' or rec and rec.token .. rec.at .. rec.holder or '?'}
