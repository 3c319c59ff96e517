-- The beginning of every script. All numbers are whole and below 2^53, because a Lua number is
-- exact up to there. Write them into strings with '%.0f', because tostring would use an exponent.

-- The bound of debts and arguments: a debt does not grow beyond it.
local MOST = 4503599627370496 -- 2^52

-- Microseconds of the server's clock, the only clock that decides.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- x / y, rounded up. The quotient may be rounded to a neighbour; products are exact. A result that
-- is too large to be exact stands for never.
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

-- The time for which a key matters, in whole milliseconds, rounded up; a century at most.
local function millis(micros)
  return string.format('%.0f', math.min(3155760000000, div_up(micros, 1000) + 1))
end

local function keep(key, value, micros)
  redis.call('SET', key, value, 'PX', millis(micros))
end

-- Whether a key lasts long enough: with another quota it may have to be kept longer.
local function lasts(key, micros)
  return redis.call('PTTL', key) * 1000 >= micros
end

-- A whole number from a value on the server. A script writes none that is larger.
local function stored(text, most)
  local number = text and tonumber(text)
  if not number or number > (most or 9007199254740992) then fail('the key holds something else') end
  return number
end

-- A whole number from the caller, small enough to calculate with.
local function argument(index)
  local value = tonumber(ARGV[index])
  if not value then fail('an argument is missing: ' .. index) end
  if value < 0 or value > MOST then fail('an argument is too large: ' .. ARGV[index]) end
  return value
end
