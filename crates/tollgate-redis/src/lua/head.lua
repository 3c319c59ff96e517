-- The frequent calls of one limit by GCRA, before anything else is defined: creating functions takes the server
-- longer than a decision. They do what one.lua and turns.lua say. If anything is unusual, nothing has happened,
-- and the rest of the script decides.
--
-- Reply: of `take`, if all calls were charged, the value that was written; otherwise that of one.lua.

local what = ARGV[1]
if ARGV[5] == '0' and (what == 'take' or KEYS[2] and what ~= 'give') then
  local key, period, count = KEYS[1], ARGV[3], ARGV[2] + 0
  local unit = period + 0
  local most = ARGV[4] * unit
  local d, c, g, x, rest, reserved = read_even_debt(key, count, period)
  local done, wait = 0, 0

  if d and what == 'take' then
    for index = 6, #ARGV, 2 do
      local n, fit = ARGV[index] + 0, (ARGV[index + 1] or 1) + 0
      local cost = n * unit
      if d + cost * fit > most then
        -- The rest of the script decides about calls above the burst.
        fit = d + cost > most and 0 or math.floor((most - d) / cost)
        wait = cost > most and -1 or math.ceil((d + cost * (fit + 1) - most) / count)
      end
      d, c, done = d + cost * fit, (c + n * fit) % POSITIONS, done + fit
      if wait ~= 0 then break end
    end
    if wait >= 0 and d > 0 then
      local value = done > 0 and write_debt(key, stamp, d, period, c, g, x, d / count, rest)
      if value and wait == 0 then return value end
      if value or x - now >= d / count then
        return { done, now, wait, math.floor(math.max(0, most - d) / unit), math.ceil(d / count), c, g + 0 }
      end
    end
  elseif d then
    local first = redis.call('ZRANGE', KEYS[2], -1, -1)[1]
    -- No tick is open, and for a turn there is a list of the processes.
    if first == 'g' .. g or not first and what == 'reserve' then
      -- The microseconds of the last reservation and of the one before it.
      local last, before = (reserved or 0) + 0, nil

      local function due(n)
        local over = n * unit > most and d or d + n * unit - most
        return over > 0 and math.ceil(over / count) or 0
      end

      local function charge(n, at)
        before = last > now and last or 0
        last, d, c = math.max(last, now + at), math.min(MOST, d + n * unit), (c + n) % POSITIONS
      end

      local turns, holders = {}, nil
      if what == 'reserve' then
        local n = ARGV[6] + 0
        wait = due(n)
        if wait <= ARGV[7] + 0 then
          charge(n, wait)
          done = 1
        end
      else
        local held, room, latest, behind = ARGV[7] + 0, ARGV[8] + 0, 0, 1
        for index = 9, #ARGV, 3 do
          local n, left, within = ARGV[index] + 0, ARGV[index + 1] + 0, ARGV[index + 2] + 0
          while left > 0 do
            local at, position = due(n), -1
            if at <= within then
              if at > 0 then
                if room < n and held > 0 then break end
                held, room, latest = held + 1, room - n, now + at
              end
              charge(n, at)
              position = c
            end
            turns[2 * done + 1], turns[2 * done + 2] = at, position
            done, left = done + 1, left - 1
          end
          if left > 0 then
            behind = n
            break
          end
        end
        wait = due(behind)
        redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', stamp)
        if latest > 0 then redis.call('ZADD', KEYS[2], 'GT', string.format('%.0f', latest), ARGV[6]) end
        holders = redis.call('ZCARD', KEYS[2]) - 1
      end

      local reset, position = math.ceil(d / count), c .. ''
      if before then
        -- Most calls make one reservation, behind those that are known already.
        if not reserved or before ~= reserved + 0 then reserved = string.format('%.0f', before) end
        rest = last > now and string.format(':%.0f:', last) .. reserved .. ':0:' .. position or ''
      end
      if before and d == 0 then
        redis.call('DEL', key)
      elseif before or x - now < reset then
        write_debt(key, stamp, d, period, position, g, x, reset, rest)
      end
      if first then redis.call('PEXPIRE', KEYS[2], math.min(3155760000000, math.ceil(reset / 1000) + 1)) end
      return { done, now, wait, math.floor(math.max(0, most - d) / unit), reset, c, g + 0, holders, unpack(turns) }
    end
  end
end
