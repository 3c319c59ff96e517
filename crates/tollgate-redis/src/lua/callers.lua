-- The callers of a detector: the end of a script that begins with clock.lua, debt_functions.lua, prelude.lua and
-- debt.lua. Each is a limit of its own; all have the same rule, GCRA.
--
-- KEYS     one for each caller
-- ARGV[1]  count, ARGV[2] period in microseconds, ARGV[3] burst
-- ARGV[4]  and on, for each caller: n, which is charged in any case
--
-- Reply: for each caller, the microseconds until its debt is within the burst again, or 0.
--
-- The loop writes what debt.lua would, without a table for each limit. Whatever is unusual is left to debt.lua.

local count, period, burst = argument(1), ARGV[2], argument(3)
local unit = argument(2)
local most = burst * unit
local waits = {}

-- Charges a caller by the whole rule.
local function charge(key, n)
  local limit = open(key, count, unit, burst, 0)
  limit:charge(n)
  limit:save()
  return limit:wait(0)
end

for index = 1, #KEYS do
  local key, n = KEYS[index], argument(3 + index)
  local d, c, g, x, rest = read_even_debt(key, count, period)
  local cost = n * unit
  if d and d + cost > 0 and d + cost < MOST then
    d = d + cost
    write_debt(key, stamp, d, period, (c + n) % POSITIONS, g, x, d / count, rest)
    waits[index] = math.max(0, math.ceil((d - most) / count))
  else
    waits[index] = charge(key, n)
  end
end
return waits
