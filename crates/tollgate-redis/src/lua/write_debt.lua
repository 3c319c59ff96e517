-- Included where a value is written, in the form of read_debt.lua: writes to `key` the debt `d` at the
-- microsecond `at`, which is `needed` for some time, and perhaps reservations, `rest`. Sets the value.

local millis
if x - now < needed then
  -- Twice the necessary time, so that few calls have to prolong it: to keep the expiry takes the server less
  -- time than a new one. A century at most.
  millis = math.min(3155760000000, math.ceil(needed / 500) + 1000)
  x = string.format('%.0f', now + millis * 1000 - 1000)
end
if d >= 1e14 then d = string.format('%.0f', d) end
value = 'd:' .. at .. ':' .. d .. ':' .. p .. ':' .. c .. ':' .. g .. ':' .. x .. rest
if millis then
  redis.call('SET', key, value, 'PX', millis)
else
  redis.call('SET', key, value, 'KEEPTTL')
end
