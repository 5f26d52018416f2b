-- Returns every session, and 1 where it is alive.
local all = {}
for _, s in ipairs(redis.call('HKEYS', P .. 'sessions')) do
  all[#all + 1] = s
  all[#all + 1] = alive(s) and 1 or 0
end
return {'ok', all}
