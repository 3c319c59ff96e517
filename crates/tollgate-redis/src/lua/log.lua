-- The sliding log: the times of the last charges, at most `count` in any period.
--
-- The key is a sorted set with a member for each charge of 1, scored by the microsecond of the
-- charge. The member is its number, in twenty digits, so that those of one microsecond are in
-- order. One more member, with an infinite score, so that it is the last one, is t:c:g, and perhaps reservations:
--   t  the microsecond of the last write
--   c  the number of the next charge
--   g  the microsecond in which the key was created, which distinguishes it from an earlier one
--
-- All data is in one key. Of two keys, a cluster could have one in another slot, or on its way to
-- another node, and a server without memory could evict one.
--
-- rule: count, period, burst (which is the count)

local function open(key, most, period)
  local self = { limit = most, reserved = 0, before = 0, skipped = 0, last = 0 }
  local c, g = 0, now
  local has_gaps = false

  local last = redis.call('ZRANGE', key, -1, -1)[1]
  if last then
    local vt, vc, vg, vr = last:match('^(%d+):(%d+):(%d+)(.*)$')
    local back = stored(vt) - now
    c, g = stored(vc), stored(vg)
    read_reservations(self, vr)
    if back > 0 then
      -- The server's clock was set back: all scores move back with it.
      for _, member in ipairs(redis.call('ZRANGE', key, 0, -2)) do
        redis.call('ZINCRBY', key, string.format('%.0f', -back), member)
      end
      move_reservations(self, back)
      self.stale = true
    end
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - period))
  local held = redis.call('ZCARD', key)
  if last then held = held - 1 end

  local function at(rank)
    return tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2])
  end

  -- Returns when the slot of a charge after `others` others is free; slots are used in turn.
  local function due(others)
    local rank = held - most + others
    if rank < 0 then return now end
    return math.max(now, at(rank) + period)
  end

  function self:wait(n)
    if n > most then return self:reset() end
    return math.min(MOST, due(n - 1) - now)
  end

  local function add(member, from)
    redis.call('ZADD', key, string.format('%.0f', math.max(from, due(0))), member)
    held = held + 1
  end

  -- Charges n, which count from a microsecond on. All of a reservation count from its own.
  function self:charge(n, from)
    if from then add_reservation(self, from, 0, c + n) end
    -- Each unit is a member, and the server must not have too many of them.
    if n > 65536 then fail('an argument is too large: ' .. n) end
    for _ = 1, n do
      add(string.format('%020.0f', c), from or now)
      c = c + 1
    end
    self.stale = true
  end

  -- Refunds the n charges before a number, as far as they still count. Later charges move up in `save`,
  -- once for all refunds of a call. While reservations are to come, only the last charges are refunded, because
  -- reservations cannot move.
  function self:give(n, position, made)
    if made ~= g or position ~= c and self.reserved > now then return 0 end
    local given = 0
    for number = position - n, position - 1 do
      given = given + redis.call('ZREM', key, string.format('%020.0f', number))
    end
    if given > 0 then
      held = held - given
      self.stale = true
      if self.reserved > now then
        c = c - n
        drop_reservation(self, position)
      else
        has_gaps = true
      end
    end
    return given
  end

  local function move_up()
    local after = string.format('(%.0f', now)
    local coming = redis.call('ZRANGEBYSCORE', key, after, '(+inf')
    held = held - redis.call('ZREMRANGEBYSCORE', key, after, '(+inf')
    for _, member in ipairs(coming) do add(member, now) end
  end

  function self:free() return math.max(0, most - held) end

  function self:reset()
    if held == 0 then return 0 end
    return math.min(MOST, at(held - 1) + period - now)
  end

  function self:ticket() return c, g end

  function self:save()
    if has_gaps then move_up() end
    if not self.stale and (not last or lasts(key, self:reset())) then return end
    if held == 0 then
      redis.call('DEL', key)
    else
      local reset = self:reset()
      if last then redis.call('ZREM', key, last) end
      local state = string.format('%.0f:%.0f:%.0f', now, c, g)
      redis.call('ZADD', key, '+inf', state .. written_reservations(self))
      redis.call('PEXPIRE', key, millis(reset))
    end
  end

  return self
end
