-- ARGV: the counter. A higher one stays.
local granted = redis.call('GET', P .. 'granted')
if not granted or compare(granted, ARGV[2]) < 0 then redis.call('SET', P .. 'granted', ARGV[2]) end
return {'ok'}
