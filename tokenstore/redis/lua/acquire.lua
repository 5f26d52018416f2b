-- ARGV: session, its acknowledged acquires, the channel of raises, and for each
-- want key, token, nonce, holder. Returns how many acquires of this session are
-- recorded, the older entries, each as key and member, and how many records were
-- raised.
--
-- Redis does not undo a script that fails half-way: everything is read and
-- decided before the first write.
local s, channel = ARGV[2], ARGV[4]
local ok, why = live(s, ARGV[3])
if not ok then return why end

local wants, raised = {}, 0
for i = 5, #ARGV, 4 do
  local w = {key = ARGV[i], token = ARGV[i + 1], nonce = ARGV[i + 2], holder = ARGV[i + 3]}
  local rec = record(w.key)
  if rec == false then return {'damaged', w.key} end
  local c = rec and compare(w.token, rec.token) or 1
  if c < 0 then return {'stale', w.key, rec.token} end
  if c == 0 and w.holder ~= '' and rec.holder ~= '' and w.holder ~= rec.holder then
    return {'collision', w.key, rec.holder}
  end
  if c > 0 then
    w.new, w.record = not rec, w.token .. text(now) .. w.holder
    raised = raised + 1
  elseif rec.holder == '' and w.holder ~= '' then
    w.record = rec.token .. rec.at .. w.holder
  end
  -- Members begin with their token, and Redis compares them byte for byte.
  w.older = redis.call('ZRANGEBYLEX', P .. 'open:' .. w.key, '-', '(' .. w.token)
  wants[#wants + 1] = w
end

local count, older = redis.call('HINCRBY', P .. 'acquires', s, 1), {}
for _, w in ipairs(wants) do
  redis.call('ZADD', P .. 'own:' .. s, 0, w.nonce .. w.token .. w.key)
  redis.call('ZADD', P .. 'open:' .. w.key, 0, w.token .. s .. w.nonce)
  if w.record then redis.call('SET', P .. 'record:' .. w.key, w.record) end
  if w.new then redis.call('ZADD', P .. 'keys', 0, w.key) end
  for _, m in ipairs(w.older) do
    redis.call('HSET', P .. 'overtaken:' .. m:sub(25, 40), m:sub(41) .. m:sub(1, 24) .. w.key, w.token)
    older[#older + 1] = w.key
    older[#older + 1] = m
  end
  if #w.older > 0 then redis.call('PUBLISH', channel, w.token .. w.key) end
end
return {'ok', count, older, raised}
