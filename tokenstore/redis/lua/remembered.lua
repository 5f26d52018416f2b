-- Returns what is remembered for all proxies, and 1 where something is.
local about = redis.call('GET', P .. 'about')
return {'ok', about or '', about and 1 or 0}
