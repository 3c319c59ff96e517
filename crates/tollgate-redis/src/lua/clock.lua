-- The beginning of every script. All numbers are whole and below 2^53, because a Lua number is exact up to there. A
-- quotient of two of them, rounded up or down, is right too: one that is not whole differs from every whole number by
-- more than the rounding error. Adding 0 is the fastest way to convert a string to a number. '..' converts it back,
-- which is exact below 10^14; above that it would write an exponent, so use '%.0f' there.

-- The bound of debts and arguments: a debt does not grow beyond it.
local MOST = 4503599627370496 -- 2^52

-- Positions of charges wrap after this many tokens.
local POSITIONS = 70368744177664 -- 2^46

-- The microsecond of the server's clock, the only clock that decides, as a string and as a number.
local time = redis.call('TIME')
local stamp = time[2]
if #stamp < 6 then stamp = string.format('%06d', stamp) end
stamp = time[1] .. stamp
local now = stamp + 0
