-- One limit: the end of a script that begins with clock.lua, prelude.lua and a rule.
--
-- KEYS[1]  the key of the limit
-- KEYS[2]  of a debt without steps, perhaps its turns, for the operations `turns`, `reserve` and `give`
-- ARGV[1]  the operation
-- ARGV[2]  count, ARGV[3] period in microseconds, ARGV[4] burst: the rule
-- ARGV[5]  and on, the arguments of the operation:
--   take n, k...   charges n, k times, and the next pairs, while there is enough for each whole n; the last n and k may be
--                  missing, for 1
--   upto n         charges as much as is available, at most n
--   peek n         charges nothing
--   charge n       charges n in any case
--   reserve n, w   charges n if that is due in at most w microseconds
--   turns id, h, r, n, w, k...   charges n, k times, and the next triples, each with the first turn
--                  that is due in at most w microseconds, for the process id, which holds h turns; it
--                  gets more of them while r units are left, or it holds none; the last k may be missing, for 1
--   give n, c, g, t...   refunds the part of a charge of n, with the ticket c, g, in the microsecond
--                  t, that is not paid off; and of others. A charge that is to come is given back
--
-- Reply: the result (of `take`, the number of calls that were charged; of `upto` and `give`, the
-- amount; of `charge`, `reserve` and `peek`, 1 if the charge was made or is possible, or 0), the
-- microsecond of the server's clock, the microseconds until the first call that was not charged is
-- possible (of `reserve`, until the charge is due), what is available now, the microseconds until
-- everything is available, and the ticket: two numbers. Of `turns`, the result is the number of
-- calls that were decided. After the ticket it has the number of processes that hold turns, and for
-- each of these calls the microseconds until it is due and the position of its charge, or -1 if it
-- would be due too late.

local number = argument

local limit = open(KEYS[1], number(2), number(3), number(4))
local what, done, wait = ARGV[1], 0, 0
if KEYS[2] or what == 'turns' then with_turns(limit, KEYS[2], number(2), number(3)) end
local position
local turns = {}

-- Reserves the turns of the triples from an argument on.
local function reserve_turns(first)
  local id, held, room, latest = ARGV[first], number(first + 1), number(first + 2), 0
  local function decide(n, within)
    local at, index = limit:find(n)
    if at > within then return at, -1 end
    if at > 0 then
      if room < n and held > 0 then return nil end
      held, room, latest = held + 1, room - n, math.max(latest, now + at)
    end
    return at, limit:occupy(n, at, index)
  end
  -- The first cost that is not decided; 1 if all are.
  local behind = 1
  for index = first + 3, #ARGV, 3 do
    local n, within, left = number(index), number(index + 1), ARGV[index + 2] and number(index + 2) or 1
    while left > 0 do
      local at, ending = decide(n, within)
      if not at then
        behind = n
        break
      end
      turns[#turns + 1] = at
      turns[#turns + 1] = ending
      done, left = done + 1, left - 1
    end
    if left > 0 then break end
  end
  wait = limit:find(behind)
  table.insert(turns, 1, limit:holders(id, latest))
end

if what == 'take' then
  for index = 5, math.max(5, #ARGV), 2 do
    local n, left = ARGV[index] and number(index) or 1, ARGV[index + 1] and number(index + 1) or 1
    while left > 0 and wait == 0 do
      wait = limit:wait(n)
      if wait == 0 then
        limit:charge(n)
        done, left = done + 1, left - 1
      end
    end
    if wait > 0 then break end
  end
elseif what == 'upto' then
  done = math.min(number(5), limit:free())
  if done > 0 then limit:charge(done) else wait = limit:wait(1) end
elseif what == 'peek' then
  wait = limit:wait(number(5))
  if wait == 0 then done = 1 end
elseif what == 'charge' then
  limit:charge(number(5))
  done = 1
elseif what == 'turns' then
  reserve_turns(5)
elseif what == 'reserve' and KEYS[2] then
  local index
  wait, index = limit:find(number(5))
  if wait <= number(6) then
    position = limit:occupy(number(5), wait, index)
    done = 1
  end
elseif what == 'reserve' then
  wait = limit:wait(number(5))
  if wait <= number(6) then
    limit:charge(number(5), now + wait)
    done = 1
  end
elseif what == 'give' then
  -- They are in the order of the charges. While reservations are to come, the last one goes first.
  local first, last, by = 5, #ARGV - 3, 4
  if limit.reserved > now then first, last, by = last, first, -by end
  for index = first, last, by do
    local n, last, of = number(index), number(index + 1), number(index + 2)
    done = done + (limit:give(n, last, of, number(index + 3)) or 0)
  end
else
  fail('what to do is not known: ' .. tostring(what))
end

limit:save()
local last, made = limit:ticket()
return { done, now, wait, limit:free(), limit:reset(), position or last, made, unpack(turns) }
