-- ARGV: what was there and whether something was; what shall be, and whether
-- something shall.
local about = redis.call('GET', P .. 'about')
if (about and 1 or 0) ~= tonumber(ARGV[3]) or (about or '') ~= ARGV[2] then return {'changed'} end
if ARGV[5] == '1' then
  redis.call('SET', P .. 'about', ARGV[4])
else
  redis.call('DEL', P .. 'about')
end
return {'ok'}
