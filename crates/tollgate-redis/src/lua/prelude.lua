-- What all scripts use, after clock.lua.

-- x / y, rounded up. A result that is too large to be exact stands for never.
local function div_up(x, y) return math.min(MOST, math.ceil(x / y)) end

local function fail(text) error('TOLLGATE ' .. text, 0) end

-- The time for which a key matters, in whole milliseconds, rounded up; a century at most.
local function millis(micros)
  return string.format('%.0f', math.min(3155760000000, div_up(micros, 1000) + 1))
end

-- A whole number from a value on the server. A script writes none that is larger.
local function stored(text, most)
  local number = text and tonumber(text)
  if not number or number > (most or 9007199254740992) then fail('the key holds something else') end
  return number
end
