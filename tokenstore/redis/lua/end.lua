-- ARGV: session.
redis.call('HDEL', P .. 'sessions', ARGV[2])
redis.call('HDEL', P .. 'acquires', ARGV[2])
return {'ok'}
