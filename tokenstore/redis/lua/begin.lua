-- ARGV: session, ttl in microseconds.
if redis.call('HSETNX', P .. 'sessions', ARGV[2], text(now + tonumber(ARGV[3]))) == 0 then
  return {'used'}
end
return {'ok'}
