-- What the scripts of limits use, after prelude.lua. A script creates each function anew, so those of leases do without them.

-- x / y, rounded down.
local function div_down(x, y) return math.min(MOST, math.floor(x / y)) end

local function keep(key, value, micros)
  redis.call('SET', key, value, 'PX', millis(micros))
end

-- Whether a key lasts long enough: with another quota it may have to be kept longer.
local function lasts(key, micros)
  return redis.call('PTTL', key) * 1000 >= micros
end

-- Reservations. A limit has the microsecond of the last one that is to come, or 0; that of one before it; how much the last one
-- has skipped: what lies before it, and is too little for it; and its ticket. The key has them as ':r:q:s:c' while one is to
-- come.

-- Reads them from the end of a value.
local function read_reservations(self, text)
  if text == '' then return end
  local r, q, s, c = text:match('^:(%d+):(%d+):(%d+):(%d+)$')
  self.reserved, self.before, self.skipped, self.last = stored(r), stored(q), stored(s), stored(c)
end

-- The clock was set back by this many microseconds.
local function move_reservations(self, back)
  self.reserved = math.max(0, self.reserved - back)
  self.before = math.max(0, self.before - back)
end

local function add_reservation(self, at, skipped, ticket)
  self.before = self.reserved > now and self.reserved or 0
  self.reserved = math.max(self.reserved, at)
  self.skipped, self.last = skipped, ticket
end

-- A charge was given back. Returns what it had skipped, if it was the last one that is to come.
local function drop_reservation(self, ticket)
  if self.reserved <= now or ticket ~= self.last then return 0 end
  local skipped = self.skipped
  self.reserved, self.skipped = self.before, 0
  return skipped
end

local function written_reservations(self)
  if self.reserved <= now then return '' end
  return string.format(':%.0f:%.0f:%.0f:%.0f', self.reserved, self.before, self.skipped, self.last)
end

-- A whole number from the caller, small enough to calculate with.
local function argument(index)
  local value = ARGV[index] or fail('an argument is missing: ' .. index)
  value = value + 0
  if value < 0 or value > MOST then fail('an argument is too large: ' .. ARGV[index]) end
  return value
end
