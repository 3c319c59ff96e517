-- The sliding window by estimate: admissions of the previous window count in proportion to the part
-- of that window that lies within the last period.
--
-- The value of the key is w:t:n:m:p:g, and perhaps reservations: the letter w, which marks this kind of limit, and whole
-- numbers:
--   t  the microsecond of the last write; it may be later, after the clock was set back. Windows
--      begin at the multiples of the period
--   n  admitted in the window of t
--   m  admitted in the window before
--   p  the period in microseconds
--   g  the microsecond in which the key was created, which distinguishes it from an earlier one
--
-- rule: count, period, burst (which is the count)

local function open(key, most, period)
  local self = { limit = most, reserved = 0, before = 0, skipped = 0, last = 0 }
  -- Windows were counted until `at`: now, or later if the server's clock was set back.
  local count, previous, g, at, written = 0, 0, now, now, 0

  -- Advances by `windows` windows. Each window absorbs its part of an excess over the limit.
  local function later(windows)
    if windows <= 0 then return end
    local before = math.max(0, count - (windows - 1) * most)
    previous = math.min(before, most)
    count = before - previous
  end

  local value = redis.call('GET', key)
  if value then
    local vt, vn, vm, vp, vg, vr = value:match('^w:(%d+):(%d+):(%d+):(%d+):(%d+)(.*)$')
    local t, p = stored(vt), stored(vp, MOST)
    read_reservations(self, vr)
    count, previous, g, written = stored(vn, MOST), stored(vm, MOST), stored(vg), t
    -- The server's clock was set back: what was admitted counts in the current window, which is not
    -- over before the clock has reached its end, or after a large change, for one period.
    at = math.max(now, math.min(t, now + period))
    if p ~= period then
      -- In other windows all of it counts, and earlier charges cannot be refunded.
      count, previous, g = count + previous, 0, now
      self.stale = true
    elseif now < t then
      if at < t then
        -- Nobody knows in which windows earlier charges count, so they cannot be refunded.
        g = now
        self.stale = true
        move_reservations(self, t - at)
      end
    else
      later(div_down(now, period) - div_down(t, period))
    end
  end

  -- The current window, its beginning, and the time since then.
  local index = div_down(at, period)
  local start = index * period
  local elapsed = math.max(0, now - start)

  -- Returns when n fit in a window with `used`, after a window with `before`, in microseconds since
  -- its beginning. Nil if they do not fit.
  local function faded(used, before, n)
    local free = most - used - n
    if free < 0 then return nil end
    if before <= free then return 0 end
    local at = div_up((before - free) * period, before)
    if at < period then return at end
    return nil
  end

  function self:wait(n)
    n = math.min(n, most)
    if n <= self:free() then return 0 end
    local used, before, from = count, previous, start - now
    if used > most then
      local passed = div_down(used - 1, most)
      used, before, from = used - passed * most, most, from + passed * period
    end
    while true do
      local after = faded(used, before, n)
      if after then return math.min(MOST, math.max(0, from + after)) end
      used, before, from = 0, used, from + period
    end
  end

  -- Charges n. A reservation counts in the window of its microsecond: the windows before that have no room for it, so
  -- they are full.
  function self:charge(n, from)
    if from then
      local skipped = math.max(0, (div_down(from, period) - index) * most - count)
      count = count + skipped
      add_reservation(self, from, skipped, at)
    end
    count = math.min(MOST, count + n)
    self.stale = true
  end

  -- Refunds a charge. Each window since then has absorbed its part of an excess. The part that
  -- counts longest is refunded last, because it may belong to another charge. While reservations are to come,
  -- only the last charge is refunded, as in debt.lua; it is known by the microsecond of the last write, unless the clock
  -- was set back.
  function self:give(n, charged, made)
    if made ~= g then return 0 end
    if self.reserved > now and (charged ~= written or at ~= now) then return 0 end
    local asked = n
    n = n + drop_reservation(self, charged)
    local passed = index - div_down(charged, period)
    local before, beyond = 0, math.min(n, count)
    if passed > 0 then
      local over = (passed - 1) * most
      before = math.min(math.max(0, n - over), previous)
      beyond = math.min(math.max(0, n - over - before), count)
    end
    previous, count = previous - before, count - beyond
    if before + beyond > 0 then self.stale = true end
    return math.min(asked, before + beyond)
  end

  function self:free()
    local fading = div_up(previous * (period - elapsed), period)
    return math.max(0, most - count - fading)
  end

  -- Returns when no admission counts any more.
  function self:reset()
    if count > 0 then return math.min(MOST, (div_up(count, most) + 1) * period + start - now) end
    if previous > 0 then return period + start - now end
    return 0
  end

  function self:ticket() return at, g end

  function self:save()
    if not self.stale and (not value or lasts(key, self:reset())) then return end
    if count == 0 and previous == 0 then
      redis.call('DEL', key)
    else
      local value = string.format('w:%.0f:%.0f:%.0f:%.0f:%.0f', at, count, previous, period, g)
      keep(key, value .. written_reservations(self), self:reset())
    end
  end

  return self
end
