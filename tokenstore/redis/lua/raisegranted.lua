-- ARGV: the counter, '' for 0. A higher one stays. Returns what it is then.
local granted, least = redis.call('GET', P .. 'granted') or '', ARGV[2]
if least ~= '' and (granted == '' or compare(granted, least) < 0) then
  redis.call('SET', P .. 'granted', least)
  granted = least
end
return {'ok', granted}
