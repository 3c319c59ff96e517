-- Rules that keep a debt: GCRA, and in steps the token bucket, the fixed window and sub-intervals.
--
-- The value of the key is d:t:d:p:c:g:x, the letter d, which tells it from others, and whole numbers:
--   t  the microsecond of the last write
--   d  what was owed then, in units
--   p  units of a token: the period in microseconds; in steps, 1
--   c  all tokens that were ever charged, modulo 2^46
--   g  the microsecond in which the key was made, which tells it from one before
--   x  the microsecond until which the key is kept at least
-- A token takes p units. In each microsecond `count` units are paid off; in steps, `count` at each
-- multiple of the period. Nothing is rounded, so nothing is lost. A change of the count needs no
-- more than that; with a change of p what is owed is converted, rounded up.
--
-- rule: count, period, burst, step (0 or 1)

local POSITIONS = 70368744177664 -- 2^46

local function open(key, count, period, burst, step)
  local self = { limit = burst }
  local unit = step == 1 and 1 or period
  local most = burst * unit
  local d, c, g, x = 0, 0, now, 0

  -- What is paid off from one microsecond to a later one.
  local function paid(from)
    if step == 0 then return (now - from) * count end
    return (div_down(now, period) - div_down(from, period)) * count
  end

  local value = redis.call('GET', key)
  if value then
    local vt, vd, vp, vc, vg, vx = value:match('^d:(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
    if not vt then fail('the key holds something else') end
    local t, p = tonumber(vt), tonumber(vp)
    d, c, g, x = tonumber(vd), tonumber(vc), tonumber(vg), tonumber(vx)
    if p ~= unit then
      -- A debt in whole tokens, and what is beyond them.
      local whole = div_down(d, p)
      local rest = d - whole * p
      d = math.min(MOST, whole * unit)
      if rest > 0 then d = math.min(MOST, d + math.min(unit, math.ceil(rest * (unit / p)) + 1)) end
      -- What is owed is no more than about what was charged: no charge from before is known any
      -- more.
      c, g = 0, now
      self.stale = true
    end
    -- The server's clock went back: nothing was paid off, and from here on time passes again.
    if now < t then
      self.stale = true
    else
      d = math.max(0, d - paid(t))
    end
  end

  -- Microseconds until so many units are paid off.
  local function lasting(units)
    if units <= 0 then return 0 end
    if step == 0 then return div_up(units, count) end
    return math.min(MOST, (div_down(now, period) + div_up(units, count)) * period - now)
  end

  function self.wait(n)
    -- What is more than the burst goes alone, once nothing is owed.
    if n > burst then return lasting(d) end
    return lasting(d + n * unit - most)
  end

  function self.charge(n)
    local units = math.min(n * unit, MOST - d)
    d = d + units
    c = (c + n) % POSITIONS
    self.stale = true
  end

  -- Of a charge of n that ended at a position: what is not paid off yet. If it was the last one,
  -- it is as if it had not been made. Otherwise what was given back of others counts as paid off,
  -- so it is never too much.
  function self.give(n, position, made)
    if made ~= g then return 0 end
    local since = (c - position) % POSITIONS
    local units = math.min(n * unit, math.max(0, d - since * unit))
    d = d - units
    if since == 0 then c = (c - n) % POSITIONS end
    if units > 0 then self.stale = true end
    return div_down(units, unit)
  end

  function self.free() return div_down(math.max(0, most - d), unit) end

  function self.reset() return lasting(d) end

  function self.ticket() return c, g end

  function self.save()
    -- By another count it may have to be kept for longer.
    if not self.stale and (d == 0 or x - now >= lasting(d)) then return end
    if d == 0 then
      redis.call('DEL', key)
    else
      -- For twice as long as it must be, so that this need not be said again each time.
      local time = math.min(MOST, 2 * lasting(d) + 1000000)
      local value = string.format('d:%.0f:%.0f:%.0f:%.0f:%.0f:%.0f', now, d, unit, c, g, now + time)
      keep(key, value, time)
    end
  end

  return self
end
