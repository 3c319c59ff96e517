-- What every script begins with. Whole numbers only, all below 2^53: up to there a Lua number is
-- exact. Whoever writes one into a string must do so by '%.0f', as tostring gives an exponent.

-- Beyond this a debt does not grow, and positions begin anew.
local MOST = 4503599627370496 -- 2^52

-- Microseconds of the server's clock: no other enters a decision.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- x / y, rounded up. The quotient may be rounded to a neighbour; products are exact. What is too
-- large to be exact is never anyway.
local function div_up(x, y)
  local q = math.floor(x / y)
  if q >= MOST then return MOST end
  while q * y < x do q = q + 1 end
  while q > 0 and (q - 1) * y >= x do q = q - 1 end
  return q
end

-- x / y, rounded down.
local function div_down(x, y)
  local q = math.floor(x / y)
  if q >= MOST then return MOST end
  while q * y > x do q = q - 1 end
  while (q + 1) * y <= x do q = q + 1 end
  return q
end

local function fail(text) error('TOLLGATE ' .. text, 0) end

-- In whole milliseconds, rounded up, for as long as a key matters; a century at most.
local function millis(micros)
  return string.format('%.0f', math.min(3155760000000, div_up(micros, 1000) + 1))
end

local function keep(key, value, micros)
  redis.call('SET', key, value, 'PX', millis(micros))
end

-- Whether a key is kept for so long as it is: by another quota it may have to be kept for longer.
local function lasts(key, micros)
  return redis.call('PTTL', key) * 1000 >= micros
end

-- Of what a caller says: a whole number that can be counted with.
local function argument(index)
  local value = tonumber(ARGV[index])
  if not value then fail('an argument is missing: ' .. index) end
  if value < 0 or value > MOST then fail('an argument is too large: ' .. ARGV[index]) end
  return value
end
