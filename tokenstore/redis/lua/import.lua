-- ARGV: for each record key, token, when, holder. The higher token is kept.
if redis.call('HLEN', P .. 'sessions') > 0 then return {'used'} end
local wants = {}
for i = 2, #ARGV, 4 do
  local key, token, at, holder = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local rec = record(key)
  if rec == false then return {'damaged', key} end
  local c = rec and compare(token, rec.token) or 1
  if c > 0 then
    wants[#wants + 1] = {key, token .. at .. holder}
  elseif c == 0 and rec.holder == '' and holder ~= '' then
    wants[#wants + 1] = {key, token .. rec.at .. holder}
  end
end
for _, w in ipairs(wants) do
  redis.call('SET', P .. 'record:' .. w[1], w[2])
  redis.call('ZADD', P .. 'keys', 0, w[1])
end
return {'ok', #wants}
