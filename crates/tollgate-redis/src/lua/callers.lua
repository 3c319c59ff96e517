-- The callers of a detector: the end of a script that begins with prelude.lua and debt.lua. Each is a limit of its
-- own; all have the same rule, GCRA.
--
-- KEYS     one for each caller
-- ARGV[1]  count, ARGV[2] period in microseconds, ARGV[3] burst
-- ARGV[4]  and on, for each caller: n, which is charged in any case
--
-- Reply: for each caller, the microseconds until its debt is within the burst again, or 0.
--
-- The loop writes what debt.lua would, without its functions, whose creation takes twice as long as everything
-- else here. As in quick.lua, every rounded quotient is right, and '..' is exact below 10^14. Whatever is unusual
-- is left to debt.lua.

local count, period, burst = argument(1), ARGV[2], argument(3)
local unit = argument(2)
local most = burst * unit
local text = string.format('%.0f', now)
local waits = {}

-- Charges a caller by the whole rule.
local function charge(index, n)
  local limit = open(KEYS[index], count, unit, burst, 0)
  limit.charge(n)
  limit.save()
  return limit.wait(0)
end

for index = 1, #KEYS do
  local key, n = KEYS[index], argument(3 + index)
  local d, c, made, expires, is_usual = 0, 0, text, 0, true
  local value = redis.call('GET', key)
  if value then
    local t, owed, p, position, g, x = value:match('^d:(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
    is_usual = p == period
    if is_usual then
      local passed = now - t
      d, c, made, expires = owed - passed * count, position + 0, g, x + 0
      if d < 0 then d = 0 end
      -- The clock was set back, or a number is larger than a script writes it.
      is_usual = passed >= 0 and owed + 0 <= MOST and c <= 70368744177664
        and g + 0 <= 9007199254740992 and expires <= 9007199254740992
    end
  end
  d = d + n * unit
  if is_usual and d > 0 and d < 1e14 then
    local reset, millis = d / count, nil
    -- The key usually lasts long enough already.
    if expires - now < reset then
      millis = math.min(3155760000000, math.ceil(reset / 500) + 1000)
      expires = now + millis * 1000 - 1000
    end
    local written = 'd:' .. text .. ':' .. d .. ':' .. period .. ':' .. (c + n) % 70368744177664
      .. ':' .. made .. ':' .. string.format('%.0f', expires)
    if millis then
      redis.call('SET', key, written, 'PX', millis)
    else
      redis.call('SET', key, written, 'KEEPTTL')
    end
    waits[index] = math.max(0, math.ceil((d - most) / count))
  else
    waits[index] = charge(index, n)
  end
end
return waits
