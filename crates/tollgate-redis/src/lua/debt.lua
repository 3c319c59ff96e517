-- Rules that keep a debt: GCRA, and in steps the token bucket, the fixed window and sub-intervals.
--
-- The value of the key is d:t:d:p:c:g:x, and perhaps reservations: the letter d, which marks this kind of limit, and whole
-- numbers:
--   t  the microsecond of the last write; in steps, it may be later, after the clock was set back
--   d  the debt at that time, in units
--   p  units of a token: the period in microseconds; in steps, 1
--   c  the number of all tokens ever charged, modulo 2^46
--   g  the microsecond in which the key was created, which distinguishes it from an earlier one
--   x  the microsecond until which the key is kept at least
-- A token takes p units. In each microsecond `count` units are paid off; in steps, `count` at each
-- multiple of the period. Nothing is rounded, so nothing is lost. A change of the count converts
-- nothing; a change of p converts the debt, rounded up.
--
-- rule: count, period, burst, step (0 or 1)

local POSITIONS = 70368744177664 -- 2^46

local function open(key, count, period, burst, step)
  local self = { limit = burst, reserved = 0, before = 0, skipped = 0, last = 0 }
  local unit = step == 1 and 1 or period
  local most = burst * unit
  -- The debt was paid off until `at`: now, or later if the server's clock was set back.
  local d, c, g, x, at = 0, 0, now, 0, now

  -- Returns the units that were paid off since a microsecond.
  local function paid(from)
    if step == 0 then return (at - from) * count end
    return (div_down(at, period) - div_down(from, period)) * count
  end

  local value = redis.call('GET', key)
  if value then
    local vt, vd, vp, vc, vg, vx, vr = value:match('^d:(%d+):(%d+):([1-9]%d*):(%d+):(%d+):(%d+)(.*)$')
    local t, p = stored(vt), stored(vp, MOST)
    d, c, g, x = stored(vd, MOST), stored(vc, POSITIONS), stored(vg), stored(vx)
    read_reservations(self, vr)
    if p ~= unit then
      -- The debt in whole tokens, and the rest.
      local whole = div_down(d, p)
      local rest = d - whole * p
      d = math.min(MOST, whole * unit)
      if rest > 0 then d = math.min(MOST, d + math.min(unit, math.ceil(rest * (unit / p)) + 1)) end
      -- Rounding makes the debt differ from the charges, so earlier ones cannot be refunded.
      c, g = 0, now
      self.stale = true
    end
    -- The server's clock was set back: nothing was paid off, and time passes again from now on. But
    -- what was paid for a step is not paid again when the clock reaches that step again. After a
    -- large change this holds for one period, so that nobody waits for as long as the change.
    if now < t then
      if step == 1 then at = math.min(t, now + period) end
      if at < t then
        -- Nobody knows how much was paid off since earlier charges, so they cannot be refunded.
        c, g = 0, now
        self.stale = true
        move_reservations(self, t - at)
      end
    else
      d = math.max(0, d - paid(t))
    end
  end

  -- Returns the microseconds until `units` units are paid off.
  local function lasting(units)
    if units <= 0 then return 0 end
    if step == 0 then return div_up(units, count) end
    return math.min(MOST, (div_down(at, period) + div_up(units, count)) * period - now)
  end

  -- Returns the microseconds for which the key is needed: in steps, for one more period, in which the
  -- last step must not be paid off again.
  local function needed() return lasting(d) + step * period end

  function self.wait(n)
    -- A call above the burst is admitted alone, once there is no debt.
    if n > burst then return lasting(d) end
    return lasting(d + n * unit - most)
  end

  -- Charges n. A reservation in steps counts from the step of its microsecond on: what the steps before that would pay off
  -- beyond the debt, is lost to them.
  function self.charge(n, from)
    if from then
      local skipped = 0
      if step == 1 then
        skipped = math.max(0, (div_down(from, period) - div_down(at, period)) * count - d)
      end
      d = d + skipped
      add_reservation(self, from, skipped, (c + n) % POSITIONS)
    end
    local units = math.min(n * unit, MOST - d)
    d = d + units
    c = (c + n) % POSITIONS
    self.stale = true
  end

  -- Refunds the part of a charge of n, in a microsecond, which ended at a position, that is not paid
  -- off yet. If it was the last charge, the state is the same as without it. Otherwise that part is
  -- known from both sides. At least what was not charged later is still owed; there, refunds of other
  -- charges count as paid off. And at least what time could not pay off since then.
  --
  -- While reservations are to come, only the last charge is refunded: the others keep their microseconds, so
  -- that with less debt the next one would come to stand on one that is taken.
  --
  -- Without steps, a charge whose microsecond is to come is a turn, which lowers the debt if it is the last one and nothing is
  -- charged behind it: if the debt at its tick is what the limit allows there. Otherwise the result is nil, or 0 if the tick
  -- is of another rate.
  function self.give(n, position, made, charged)
    if made ~= g then return 0 end
    local since = (c - position) % POSITIONS
    local units
    if step == 0 and charged > now then
      units = n * unit
      local there = d - (charged - now) * count
      -- A tick of a slower rate lies behind the end of the line. Its unit stays charged: the line comes to its tick.
      if there <= math.max(most, units) - count then return 0 end
      if charged < self.reserved or there > math.max(most, units) or d < units then return nil end
      d = d - units
      self.reserved = math.min(self.reserved, now + lasting(d - most))
      self.before = math.min(self.before, self.reserved)
    else
      if since > 0 and self.reserved > now then return 0 end
      local least = math.max(d - since * unit, n * unit - paid(charged))
      units = math.max(0, math.min(n * unit, least, d))
      d = d - units
      d = math.max(0, d - drop_reservation(self, position))
    end
    if since == 0 then c = (c - n) % POSITIONS end
    if units > 0 then self.stale = true end
    return div_down(units, unit)
  end

  function self.free() return div_down(math.max(0, most - d), unit) end

  function self.reset() return lasting(d) end

  function self.ticket() return c, g end

  function self.save()
    -- With another count it may have to be kept longer.
    if not self.stale and (d == 0 or x - now >= needed()) then return end
    if d == 0 and step == 0 then
      redis.call('DEL', key)
    else
      -- Twice the necessary time, so that not every call has to prolong it.
      local time = math.min(MOST, math.max(needed(), 2 * lasting(d) + 1000000))
      local value = string.format('d:%.0f:%.0f:%.0f:%.0f:%.0f:%.0f', at, d, unit, c, g, now + time)
      keep(key, value .. written_reservations(self), time)
    end
  end

  return self
end
