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
--
-- These lines are included where a value is read. They read that of `key`, and set these numbers, p, g and x as
-- strings, and the reservations, `rest`, as a string. Without a key, the debt is 0, and p is nil.

local t, d, p, c, g, x, rest = now, 0, nil, 0, stamp, '0', ''
local value = redis.call('GET', key)
if value then
  t, d, p, c, g, x, rest = value:match('^d:(%d+):(%d+):([1-9]%d*):(%d+):(%d+):(%d+)(.*)$')
  -- A script writes none that is larger.
  if t then t, d, c = t + 0, d + 0, c + 0 end
  local most = '9007199254740992'
  if not t or t > 9007199254740992 or d > MOST or c > POSITIONS or #p > 15 and p + 0 > MOST
    or #g > 15 and (#g > 16 or g > most) or #x > 15 and (#x > 16 or x > most) then
    error('TOLLGATE the key holds something else', 0)
  end
end
