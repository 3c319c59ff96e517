-- Rules that keep a debt: GCRA, and in steps the token bucket, the fixed window and sub-intervals.
--
-- rule: count, period, burst, and 1 if it is in steps

-- The operations of a limit. They are made in one constructor, because a table that grows is copied each time.
local Debt = {

  -- Returns the units that are paid off from a microsecond to the one until which the debt was paid off.
  paid = function(self, from)
    if self.step == 0 then return (self.at - from) * self.count end
    return (div_down(self.at, self.period) - div_down(from, self.period)) * self.count
  end,

  -- Returns the microseconds until `units` units are paid off.
  lasting = function(self, units)
    if units <= 0 then return 0 end
    if self.step == 0 then return div_up(units, self.count) end
    return math.min(MOST, (div_down(self.at, self.period) + div_up(units, self.count)) * self.period - now)
  end,

  wait = function(self, n)
    -- A call above the burst is admitted alone, once there is no debt.
    if n > self.limit then return self:lasting(self.d) end
    return self:lasting(self.d + n * self.unit - self.most)
  end,

  -- Charges n. A reservation in steps counts from the step of its microsecond on: what the steps before that
  -- would pay off beyond the debt, is lost to them.
  charge = function(self, n, from)
    if from then
      local skipped = 0
      if self.step == 1 then
        skipped = math.max(0, (div_down(from, self.period) - div_down(self.at, self.period)) * self.count - self.d)
      end
      self.d = self.d + skipped
      add_reservation(self, from, skipped, (self.c + n) % POSITIONS)
    end
    self.d = math.min(MOST, self.d + n * self.unit)
    self.c = (self.c + n) % POSITIONS
    self.stale = true
  end,

  -- Refunds the part of a charge of n, in a microsecond, which ended at a position, that is not paid
  -- off yet. If it was the last charge, the state is the same as without it. Otherwise that part is
  -- known from both sides. At least what was not charged later is still owed; there, refunds of other
  -- charges count as paid off. And at least what time could not pay off since then.
  --
  -- While reservations are to come, only the last charge is refunded: the others keep their microseconds, so
  -- that with less debt the next one would come to stand on one that is taken.
  --
  -- Without steps, a charge whose microsecond is to come is a turn, which lowers the debt if it is the last one
  -- and nothing is charged behind it: if the debt at its tick is what the limit allows there. Otherwise the
  -- result is nil, or 0 if the tick is of another rate.
  give = function(self, n, position, made, charged)
    if made ~= self.g + 0 then return 0 end
    local d, unit, most = self.d, self.unit, self.most
    local since = (self.c - position) % POSITIONS
    local units
    if self.step == 0 and charged > now then
      units = n * unit
      local there = d - (charged - now) * self.count
      -- A tick of a slower rate lies behind the end of the line. Its unit stays charged: the line comes to its
      -- tick.
      if there <= math.max(most, units) - self.count then return 0 end
      if charged < self.reserved or there > math.max(most, units) or d < units then return nil end
      self.d = d - units
      self.reserved = math.min(self.reserved, now + self:lasting(self.d - most))
      self.before = math.min(self.before, self.reserved)
    else
      if since > 0 and self.reserved > now then return 0 end
      local least = math.max(d - since * unit, n * unit - self:paid(charged))
      units = math.max(0, math.min(n * unit, least, d))
      self.d = math.max(0, d - units - drop_reservation(self, position))
    end
    if since == 0 then self.c = (self.c - n) % POSITIONS end
    if units > 0 then self.stale = true end
    return div_down(units, unit)
  end,

  free = function(self) return div_down(math.max(0, self.most - self.d), self.unit) end,

  reset = function(self) return self:lasting(self.d) end,

  ticket = function(self) return self.c, self.g + 0 end,

  save = function(self)
    -- In steps, for one more period, in which the last step must not be paid off again.
    local needed = self:reset() + self.step * self.period
    -- With another count it may have to be kept longer.
    if not self.stale and (self.d == 0 or self.x - now >= needed) then return end
    if self.d == 0 and self.step == 0 then
      redis.call('DEL', self.key)
    else
      local at = self.at == now and stamp or string.format('%.0f', self.at)
      write_debt(self.key, at, self.d, self.p, self.c, self.g, self.x, needed, written_reservations(self))
    end
  end,
}
Debt.__index = Debt

-- Returns the numbers of a value, as read_debt.lua says.
local function read_debt(key)
  -- include read_debt.lua
  return t, d, p, c, g, x, rest
end

local function open(key, count, period, burst, step)
  step = step or 0
  local unit = step == 1 and 1 or period
  local t, d, p, c, g, x, rest = read_debt(key)
  local self = setmetatable({
    key = key, count = count, period = period, limit = burst, step = step, unit = unit, most = burst * unit,
    -- The debt was paid off until `at`: now, or later if the server's clock was set back.
    at = now, d = d, p = p, c = c, g = g, x = x, reserved = 0, before = 0, skipped = 0, last = 0,
  }, Debt)
  read_reservations(self, rest)
  if not p then
    self.p = string.format('%.0f', unit)
  elseif p + 0 ~= unit then
    -- The debt in whole tokens, and the rest.
    local whole = div_down(d, p + 0)
    local rest = d - whole * p
    d = math.min(MOST, whole * unit)
    if rest > 0 then d = math.min(MOST, d + math.min(unit, math.ceil(rest * (unit / p)) + 1)) end
    -- Rounding makes the debt differ from the charges, so earlier ones cannot be refunded.
    self.d, self.p, self.c, self.g, self.stale = d, string.format('%.0f', unit), 0, stamp, true
  end
  -- The server's clock was set back: nothing was paid off, and time passes again from now on. But
  -- what was paid for a step is not paid again when the clock reaches that step again. After a
  -- large change this holds for one period, so that nobody waits for as long as the change.
  if now < t then
    if step == 1 then self.at = math.min(t, now + period) end
    if self.at < t then
      -- Nobody knows how much was paid off since earlier charges, so they cannot be refunded.
      self.c, self.g, self.stale = 0, stamp, true
      move_reservations(self, t - self.at)
    end
  else
    self.d = math.max(0, d - self:paid(t))
  end
  return self
end
