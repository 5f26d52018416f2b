-- ARGV: from, to (as ZRANGEBYLEX has them), how many. Returns each key and its
-- record, as look does.
local found = {}
for _, key in ipairs(redis.call('ZRANGEBYLEX', P .. 'keys', ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])) do
  local rec = record(key)
  found[#found + 1] = key
  found[#found + 1] = rec == nil and '' or rec and rec.token .. rec.at .. rec.holder or '?'
end
return {'ok', found}
