-- The frequent calls of one limit by GCRA, before any function is defined: to create one takes the server as
-- long as two arguments of a call. They do what one.lua and turns.lua say. If anything is unusual, nothing has
-- happened, and the rest of the script decides.
--
-- Reply: of `take`, if all calls were charged, the value that was written; otherwise that of one.lua.

local ARGV, key = ARGV, KEYS[1]
local what, count, period = ARGV[1], ARGV[2] + 0, ARGV[3]
-- include read_debt.lua
-- include even_debt.lua

if d and (what == 'take' or KEYS[2] and what ~= 'give') then
  local unit = period + 0
  local most = ARGV[4] * unit
  local is_decided, is_charged, done, wait = true, false, 0, 0
  local first, holders, turns
  local has_line = reserved

  if what == 'take' then
    local index = 5
    repeat
      local n, fit = (ARGV[index] or 1) + 0, (ARGV[index + 1] or 1) + 0
      local cost = n * unit
      if d + cost * fit > most then
        -- The rest of the script decides about calls above the burst.
        is_decided = cost <= most
        fit = d + cost > most and 0 or math.floor((most - d) / cost)
        wait = math.ceil((d + cost * (fit + 1) - most) / count)
      end
      d, c, done, index = d + cost * fit, (c + n * fit) % POSITIONS, done + fit, index + 2
    until wait ~= 0 or not ARGV[index]
    is_decided, is_charged = is_decided and d > 0, done > 0
  else
    first = redis.call('ZRANGE', KEYS[2], '-1', '-1')[1]
    -- No tick is open, and for turns there is a list of the processes.
    is_decided = first == 'g' .. g or not first and what == 'reserve'
    -- The microseconds of the last reservation and of the one before it.
    local last, before, charges = (reserved or 0) + 0, 0, 0
    local index, held, room, latest = 5, 0, MOST, 0
    if what == 'turns' then index, held, room, turns = 8, ARGV[6] + 0, ARGV[7] + 0, {} end
    local is_full = not is_decided

    while ARGV[index] and not is_full do
      local n, within, left = ARGV[index] + 0, ARGV[index + 1] + 0, (ARGV[index + 2] or 1) + 0
      local cost = n * unit
      while left > 0 do
        local over, position = cost > most and d or d + cost - most, -1
        wait = over > 0 and math.ceil(over / count) or 0
        if wait <= within then
          is_full = wait > 0 and room < n and held > 0
          if is_full then break end
          if wait > 0 then held, room, latest = held + 1, room - n, now + wait end
          before, charges = last > now and last or 0, charges + 1
          if now + wait > last then last = now + wait end
          d, c = d + cost, (c + n) % POSITIONS
          if d > MOST then d = MOST end
          position = c
        end
        if turns then
          turns[2 * done + 1], turns[2 * done + 2] = wait, position
          done = done + 1
        else
          done = charges
        end
        left = left - 1
      end
      index = index + 3
    end

    is_charged = charges > 0
    if is_charged then
      c = c .. ''
      -- Most calls make one reservation, behind those that are known already.
      before = charges == 1 and (reserved or '0') or string.format('%.0f', before)
      if last > now then
        reserved = string.format('%.0f', last)
        rest = ':' .. reserved .. ':' .. before .. ':0:' .. c
      else
        rest = ''
      end
    end
    if turns and is_decided then
      -- When the first call is due that was not decided, or one of cost 1.
      if not is_full then wait = math.max(0, math.ceil((d + unit - most) / count)) end
      redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', stamp)
      if latest > 0 then
        redis.call('ZADD', KEYS[2], 'GT', latest == last and reserved or string.format('%.0f', latest), ARGV[5])
      end
      holders = redis.call('ZCARD', KEYS[2]) - 1
    end
  end

  if is_decided then
    local at, needed = stamp, d / count
    p = period
    if is_charged and d == 0 then
      redis.call('DEL', key)
    elseif is_charged or d > 0 and x - now < needed then
      -- include write_debt.lua
      -- The other key is kept as long as this one: from the beginning of a line, and when this one is kept for
      -- longer. If calls without the other key prolong only this one, it may be lost early, and the next turn
      -- creates it again.
      if first and (millis or not has_line) then
        redis.call('PEXPIRE', KEYS[2], millis or math.ceil((x - now) / 1000))
      end
      if what == 'take' and wait == 0 then return value end
    end
    local reset = math.ceil(needed)
    return { done, now, wait, math.floor(math.max(0, most - d) / unit), reset, c, g, holders, unpack(turns or {}) }
  end
end
