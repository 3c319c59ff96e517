-- One limit: the end of a script that began with prelude.lua and a rule.
--
-- KEYS[1]  the key of the limit
-- ARGV[1]  what to do
-- ARGV[2]  count, ARGV[3] period in microseconds, ARGV[4] burst, ARGV[5] step: the rule
-- ARGV[6]  and on, by what to do:
--   take n, k...   charges n, k times, and the next ones, as long as there is enough for each whole one
--   upto n         charges as much as there is, at most n
--   peek n         charges nothing
--   charge n       charges n in any case
--   reserve n, w   charges n if that will be paid for in at most w microseconds
--   give n, c, g   gives back of a charge of n what is not paid off
--
-- Reply: how many (of `take`, how many were charged of those asked for; of `upto` and `give`, how much; of `charge`, `reserve`
-- and `peek`, 1 if it was or could be charged, or 0), the microsecond of the server's clock, how
-- many microseconds until the first that was not charged could be (of `reserve`, until it is paid
-- for), what could be had now, microseconds until all could be, and the ticket: two numbers.

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
    limit.charge(number(6))
    done = 1
  end
elseif what == 'give' then
  done = limit.give(number(6), number(7), number(8))
else
  fail('what to do is not known: ' .. tostring(what))
end

limit.save()
local position, made = limit.ticket()
return { done, now, wait, limit.free(), limit.reset(), position, made }
