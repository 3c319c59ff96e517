-- The frequent call of several limits by GCRA, before anything else is defined, as in head.lua: `take` of one call,
-- as several.lua says.

if ARGV[1] == 'take' and #ARGV == 1 + 5 * #KEYS then
  local limits, done = {}, 1
  for index, key in ipairs(KEYS) do
    local first = 5 * index - 3
    local count, period, n = ARGV[first + 1] + 0, ARGV[first + 2], ARGV[first + 4] + 0
    local unit = period + 0
    local most, cost = ARGV[first + 3] * unit, n * unit
    local d, c, g, x, rest
    if ARGV[first] == 'debt' and cost <= most then
      d, c, g, x, rest = read_even_debt(key, count, period)
    end
    if not d or n == 0 and d == 0 then
      done = -1
      break
    end
    local wait = 0
    if n > 0 and d + cost > most then
      done, wait = 0, math.ceil((d + cost - most) / count)
    end
    limits[index] = { count, period, unit, most, cost, n, d, c, g, x, rest, wait }
  end

  if done >= 0 then
    local reply = { done, now }
    for index, key in ipairs(KEYS) do
      local count, period, unit, most, cost, n, d, c, g, x, rest, wait = unpack(limits[index])
      local first = 5 * index - 3
      if done == 1 then d, c = d + cost, (c + n) % POSITIONS end
      local reset = math.ceil(d / count)
      -- With another count it may have to be kept longer.
      if d > 0 and (done == 1 and n > 0 or x - now < reset) then
        write_debt(key, stamp, d, period, c, g, x, reset, rest)
      end
      reply[first + 1], reply[first + 2], reply[first + 3] = wait, math.floor(math.max(0, most - d) / unit), reset
      reply[first + 4], reply[first + 5] = c, g
    end
    return reply
  end
end
