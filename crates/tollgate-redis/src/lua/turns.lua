-- Turns: charges that are due later, of a limit whose debt is paid off evenly. Each has a tick, the microsecond at which it
-- is due. `with_turns` adds them to a limit of debt.lua.
--
-- A second key, a sorted set, has what a call about turns needs beside the limit. If it is lost, only shares and open ticks
-- are, and so a call may come without it, while a cluster moves one of the two keys:
--   a member for each process that holds turns, scored by the latest of its ticks
--   the last member, with an infinite score: the letter g and the microsecond in which the limit was created, and then
--   ;t,n,p for each open tick, in their order
--
-- A turn that is given back lowers the debt if nothing is charged behind it. Otherwise the turns behind it keep their ticks,
-- so its own is kept as open: n units at the microsecond t, whose charge ended at the position p. The next turn that is
-- asked for, and that costs at most n, gets this tick; the rest stays open, later by the cost of that turn. The debt counts the
-- rest from its first tick on, so until its last one nothing else lowers the debt.

-- The most open ticks of a limit. A full list drops its latest one.
local MOST_OPEN = 64

local function with_turns(limit, key, count, period)
  local _, made = limit:ticket()
  local begin = string.format('g%.0f', made)
  local text = key and redis.call('ZRANGE', key, -1, -1)[1]
  local ticks, is_changed = {}, false

  if text then
    local of, list = text:match('^(g%d+)(.*)$')
    if of == begin then
      for t, n, p in list:gmatch(';(%d+),(%d+),(%d+)') do
        local tick = { t = stored(t), n = stored(n), p = stored(p) }
        if tick.t > now then ticks[#ticks + 1] = tick end
      end
    else
      -- The limit was lost, or its clock was set back.
      redis.call('DEL', key)
      text = nil
    end
  end

  local function add(tick)
    is_changed = true
    local index = #ticks + 1
    while index > 1 and ticks[index - 1].t > tick.t do index = index - 1 end
    table.insert(ticks, index, tick)
    ticks[MOST_OPEN + 1] = nil
  end

  -- The last microsecond that is reserved is not before that of an open tick.
  local function reserve_open()
    local last = ticks[#ticks]
    if last and last.t > limit.reserved then limit.reserved, limit.stale = last.t, true end
  end

  -- Returns the microseconds until the next turn of n, and the index of its open tick, if it has one.
  function limit:find(n)
    local wait = limit:wait(n)
    for index, tick in ipairs(ticks) do
      if tick.t >= now + wait then break end
      if tick.n >= n then return tick.t - now, index end
    end
    return wait
  end

  -- Takes the turn that `find` has found. Returns the position of its charge.
  function limit:occupy(n, wait, index)
    if not index then
      limit:charge(n, now + wait)
      return (limit:ticket())
    end
    local tick = table.remove(ticks, index)
    is_changed = true
    local rest = tick.n - n
    if rest > 0 then add({ t = tick.t + div_up(n * period, count), n = rest, p = tick.p }) end
    reserve_open()
    return (tick.p - rest) % POSITIONS
  end

  local give = limit.give
  function limit:give(n, position, of, tick)
    local given = give(limit, n, position, of, tick)
    if not given then add({ t = tick, n = n, p = position }) end
    reserve_open()
    return given or 0
  end

  -- Records the latest tick of a process, or 0. Returns the number of processes that hold turns, or 0 if it is not known.
  function limit:holders(id, latest)
    if not key then return 0 end
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
    if latest > 0 then redis.call('ZADD', key, 'GT', string.format('%.0f', latest), id) end
    is_changed = is_changed or not text
    return redis.call('ZCARD', key) - (text and 1 or 0)
  end

  local save = limit.save
  function limit:save()
    save(limit)
    if not key then return end
    if is_changed then
      local written = { begin }
      for _, tick in ipairs(ticks) do
        written[#written + 1] = string.format('%.0f,%.0f,%.0f', tick.t, tick.n, tick.p)
      end
      if text then redis.call('ZREM', key, text) end
      redis.call('ZADD', key, '+inf', table.concat(written, ';'))
    end
    -- At least as long as the key of the limit, also if that was just prolonged, which head.lua relies on.
    if is_changed or text then
      redis.call('PEXPIRE', key, millis(math.max(limit.x - now, 2 * limit:reset() + 1000000)))
    end
  end
end
