-- One limit: the end of a script that begins with prelude.lua and a rule.
--
-- KEYS[1]  the key of the limit
-- ARGV[1]  the operation
-- ARGV[2]  count, ARGV[3] period in microseconds, ARGV[4] burst, ARGV[5] step: the rule
-- ARGV[6]  and on, the arguments of the operation:
--   take n, k...   charges n, k times, and the next pairs, while there is enough for each whole n
--   upto n         charges as much as is available, at most n
--   peek n         charges nothing
--   charge n       charges n in any case
--   reserve n, w   charges n if that is due in at most w microseconds
--   give n, c, g, t...   refunds the part of a charge of n, with the ticket c, g, in the microsecond
--                  t, that is not paid off; and of others
--
-- Reply: the result (of `take`, the number of calls that were charged; of `upto` and `give`, the
-- amount; of `charge`, `reserve` and `peek`, 1 if the charge was made or is possible, or 0), the
-- microsecond of the server's clock, the microseconds until the first call that was not charged is
-- possible (of `reserve`, until the charge is due), what is available now, the microseconds until
-- everything is available, and the ticket: two numbers.

local number = argument

local limit = open(KEYS[1], number(2), number(3), number(4), number(5))
local what, done, wait = ARGV[1], 0, 0

if what == 'take' then
  for index = 6, #ARGV, 2 do
    local n, left = number(index), number(index + 1)
    while left > 0 and wait == 0 do
      wait = limit.wait(n)
      if wait == 0 then
        limit.charge(n)
        done, left = done + 1, left - 1
      end
    end
    if wait > 0 then break end
  end
elseif what == 'upto' then
  done = math.min(number(6), limit.free())
  if done > 0 then limit.charge(done) else wait = limit.wait(1) end
elseif what == 'peek' then
  wait = limit.wait(number(6))
  if wait == 0 then done = 1 end
elseif what == 'charge' then
  limit.charge(number(6))
  done = 1
elseif what == 'reserve' then
  wait = limit.wait(number(6))
  if wait <= number(7) then
    limit.charge(number(6), now + wait)
    done = 1
  end
elseif what == 'give' then
  -- They are in the order of the charges. While reservations are to come, the last one goes first.
  local first, last, by = 6, #ARGV - 3, 4
  if limit.reserved > now then first, last, by = last, first, -by end
  for index = first, last, by do
    local n, position, made = number(index), number(index + 1), number(index + 2)
    done = done + limit.give(n, position, made, number(index + 3))
  end
else
  fail('what to do is not known: ' .. tostring(what))
end

limit.save()
local position, made = limit.ticket()
return { done, now, wait, limit.free(), limit.reset(), position, made }
