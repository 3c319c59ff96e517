-- The functions of several debts.

-- Returns the debt by GCRA now, c, g, x, and the reservations that are to come; nil if the key is of another
-- period, or the clock was set back.
local function read_even_debt(key, count, period)
  -- include read_debt.lua
  -- include even_debt.lua
  return d, c, g, x, rest
end

-- Writes a debt at a microsecond, which is needed for some time.
local function write_debt(key, at, d, p, c, g, x, needed, rest)
  local value
  -- include write_debt.lua
end
