-- The most frequent call, inlined: `take` with GCRA, of a valid key that has enough for the first
-- waiter. The whole rule is debt.lua, which comes after this and documents the value; it creates
-- closures and formats numbers, which takes longer than all the work here. If anything is unusual,
-- this script does nothing, and the whole rule decides.
--
-- Every rounded quotient here is right: a quotient of numbers below 2^53 that is not a whole number
-- differs from every whole number by more than the rounding error. Adding 0 is the fastest way to
-- convert a string to a number, and '..' to convert it back, which is exact below 10^14.
--
-- Reply: how many were charged, the microseconds until the next one is possible, and the value that
-- was written.

if ARGV[1] == 'take' and ARGV[5] == '0' then
  local time = redis.call('TIME')
  local micros = time[2]
  if #micros < 6 then micros = string.format('%06d', micros) end
  local text = time[1] .. micros
  local now, period, count = text + 0, ARGV[3], ARGV[2] + 0
  local unit = period + 0
  local most = ARGV[4] * unit
  local d, c, made, expires, passed = 0, 0, text, '0', 0

  local value = redis.call('GET', KEYS[1])
  if value then
    local t, owed, p, position, g, x = value:match('^d:(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
    if p == period then
      passed = now - t
      d, c, made, expires = owed - passed * count, position, g, x
      if d < 0 then d = 0 end
      -- The debt is beyond the burst, or a number is larger than a script writes it.
      if d > most or owed + 0 > 4503599627370496 or position + 0 > 70368744177664
        or g + 0 > 9007199254740992 or x + 0 > 9007199254740992 then
        passed = -1
      end
    else
      passed = -1
    end
  end

  if passed >= 0 then
    local done, wait, tokens = 0, 0, c
    for index = 6, #ARGV, 2 do
      local n, times = ARGV[index], ARGV[index + 1] + 0
      local cost = n * unit
      local after = d + cost * times
      local fit = times
      if after > most then
        -- The whole rule decides about calls above the burst.
        fit = cost > most and 0 or math.floor((most - d) / cost)
        after = d + cost * fit
        wait = math.ceil((after + cost - most) / count)
      end
      d, tokens, done = after, tokens + n * fit, done + fit
      if fit < times then
        if cost > most then done = 0 end
        break
      end
    end
    if done > 0 and d > 0 then
      local reset, owed, millis = d / count, d, nil
      -- The key usually lasts long enough already, and KEEPTTL takes the server less time than a
      -- new expiry.
      if expires - now < reset then
        millis = math.min(3155760000000, math.ceil(reset / 500) + 1000)
        expires = string.format('%.0f', now + millis * 1000 - 1000)
      end
      if d >= 1e14 then owed = string.format('%.0f', d) end
      local written = 'd:' .. text .. ':' .. owed .. ':' .. period .. ':' .. tokens % 70368744177664
        .. ':' .. made .. ':' .. expires
      if millis then
        redis.call('SET', KEYS[1], written, 'PX', millis)
      else
        redis.call('SET', KEYS[1], written, 'KEEPTTL')
      end
      return { done, wait, written }
    end
  end
end
