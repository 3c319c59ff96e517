-- What is asked for nearly always, written out: `take` by GCRA, of a key that is as it should be and
-- has enough for the first one. The whole rule is debt.lua, which comes after this and says what the
-- value is; that makes functions, and texts of numbers, which take longer than all that is done here.
-- Where anything is not plain this does nothing, and the whole rule decides.
--
-- No quotient here is wrong: of numbers below 2^53 one that is no whole number differs from each of
-- those by more than it is rounded by. To add 0 is the fastest way from a text to a number, and '..'
-- back, which is exact below 10^14.
--
-- Reply: how many were charged, how many microseconds until the next one could be, and the value that
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
    end
    -- Of another period, or with a debt beyond the burst.
    if p ~= period or d > most then passed = -1 end
  end

  if passed >= 0 then
    local done, wait, tokens = 0, 0, c
    for index = 6, #ARGV, 2 do
      local n, times = ARGV[index], ARGV[index + 1] + 0
      local cost = n * unit
      local after = d + cost * times
      local fit = times
      if after > most then
        -- More than the burst is for the whole rule.
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
      -- Mostly the key is kept for as long as it must be already, and to say so takes the server
      -- less time than to change it.
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
