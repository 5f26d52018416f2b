-- ARGV: keys. Returns for each its record as it stands ('' for none, '?' for
-- one that cannot be read) and its open entries.
local states = {}
for i = 2, #ARGV do
  local rec = record(ARGV[i])
  local raw = rec == nil and '' or rec and rec.token .. rec.at .. rec.holder or '?'
  states[#states + 1] = {raw, redis.call('ZRANGE', P .. 'open:' .. ARGV[i], 0, -1)}
end
return {'ok', states}
