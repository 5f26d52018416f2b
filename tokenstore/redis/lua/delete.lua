-- ARGV: the channel of deletes, and for each entry key and member.
for i = 3, #ARGV, 2 do
  local key, m = ARGV[i], ARGV[i + 1]
  local s, own = m:sub(25, 40), m:sub(41) .. m:sub(1, 24) .. key
  local gone = redis.call('ZREM', P .. 'open:' .. key, m)
  redis.call('ZREM', P .. 'own:' .. s, own)
  redis.call('HDEL', P .. 'overtaken:' .. s, own)
  if gone == 1 then redis.call('PUBLISH', ARGV[2], m .. key) end
end
return {'ok'}
