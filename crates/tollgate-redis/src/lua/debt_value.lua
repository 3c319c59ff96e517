-- The value of a limit that keeps a debt is d:t:d:p:c:g:x, and perhaps reservations: the letter d, which marks
-- this kind of limit, and whole numbers:
--   t  the microsecond of the last write; in steps, it may be later, after the clock was set back
--   d  the debt at that time, in units
--   p  units of a token: the period in microseconds; in steps, 1
--   c  the number of all tokens ever charged, modulo 2^46
--   g  the microsecond in which the key was created, which distinguishes it from an earlier one
--   x  the microsecond until which the key is kept at least
-- A token takes p units. In each microsecond `count` units are paid off; in steps, `count` at each
-- multiple of the period. Nothing is rounded, so nothing is lost. A change of the count converts
-- nothing; a change of p converts the debt, rounded up.

local POSITIONS = 70368744177664 -- 2^46

-- Returns these numbers, p, g and x as strings, and the reservations, as a string. Without a key, the debt is 0,
-- and p is nil.
local function read_debt(key)
  local value = redis.call('GET', key)
  if not value then return now, 0, nil, 0, stamp, '0', '' end
  local t, d, p, c, g, x, rest = value:match('^d:(%d+):(%d+):([1-9]%d*):(%d+):(%d+):(%d+)(.*)$')
  -- A script writes none that is larger.
  if t then t, d, c = t + 0, d + 0, c + 0 end
  local most = '9007199254740992'
  if not t or t > 9007199254740992 or d > MOST or c > POSITIONS or #p > 15 and p + 0 > MOST
    or #g > 15 and (#g > 16 or g > most) or #x > 15 and (#x > 16 or x > most) then
    error('TOLLGATE the key holds something else', 0)
  end
  return t, d, p, c, g, x, rest
end

-- Returns the debt by GCRA now, c, g, x, the reservations that are to come, and the microsecond of the last one,
-- as a string; nil if the key is of another period, or the clock was set back.
local function read_even_debt(key, count, period)
  local t, d, p, c, g, x, rest = read_debt(key)
  if p ~= period and p or t > now then return nil end
  local reserved
  if rest ~= '' then
    reserved = rest:match('^:(%d+):%d+:%d+:%d+$')
    if not reserved or reserved + 0 <= now then rest, reserved = '', nil end
  end
  d = d - (now - t) * count
  if d < 0 then d = 0 end
  return d, c, g, x, rest, reserved
end

-- Writes a debt at a microsecond, which is needed for some time, and perhaps its reservations. Returns the value.
local function write_debt(key, at, d, p, c, g, x, needed, rest)
  local millis
  if x - now < needed then
    -- Twice the necessary time, so that few calls have to prolong it: to keep the expiry takes the server less
    -- time than a new one. A century at most.
    millis = math.min(3155760000000, math.ceil(needed / 500) + 1000)
    x = string.format('%.0f', now + millis * 1000 - 1000)
  end
  if d >= 1e14 then d = string.format('%.0f', d) end
  local value = 'd:' .. at .. ':' .. d .. ':' .. p .. ':' .. c .. ':' .. g .. ':' .. x .. rest
  if millis then
    redis.call('SET', key, value, 'PX', millis)
  else
    redis.call('SET', key, value, 'KEEPTTL')
  end
  return value
end
