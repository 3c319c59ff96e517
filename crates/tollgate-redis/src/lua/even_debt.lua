-- Included after read_debt.lua: makes `d` the debt by GCRA now, of a rule with a `count` and a `period`, which
-- is a string; nil if the key is of another period, or the clock was set back. Keeps the reservations that are
-- to come, and sets the microsecond of the last one, `reserved`, as a string.

local reserved
if p and p ~= period or t > now then
  d = nil
else
  d = d - (now - t) * count
  if d < 0 then d = 0 end
  if rest ~= '' then
    reserved = rest:match('^:(%d+):%d+:%d+:%d+$')
    if not reserved or reserved + 0 <= now then rest, reserved = '', nil end
  end
end
