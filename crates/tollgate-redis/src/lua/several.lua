-- Several limits at once, all or none: the end of a script that begins with clock.lua and prelude.lua, and has all
-- rules, in `rules`.
--
-- KEYS     one for each limit
-- ARGV[1]  the operation
-- ARGV     and on, for each limit: the name of the rule, count, period in microseconds, burst,
--          and the arguments of the operation:
--   take   n...              charges a call with these costs, the first one of each limit, if there is enough of each; and
--                            the next calls, until one is refused. Nothing of a limit with an n of 0, which has been
--                            charged already
--   peek   n                 charges nothing
--   charge n                 charges n of each in any case
--   give   n, c, g, t...     refunds the part of a charge of n, with the ticket c, g, in the
--                            microsecond t, that is not paid off; and of others
--
-- Reply: 1 if all charges were made or are possible, or 0 (of `take`, the number of calls that were charged); the
-- microsecond of the server's clock; and for each limit the microseconds until its charge is possible (of `take`, that of
-- the first call that was not charged; of `charge`, until the debt is within the limit again), what is available now, the
-- microseconds until everything is available, and the ticket: two numbers.

local what = ARGV[1]
local size = (#ARGV - 1) / #KEYS
local limits, numbers, waits, done = {}, {}, {}, 1

for index = 1, #KEYS do
  local first = 2 + (index - 1) * size
  local function number(offset) return argument(first + offset) end
  local open = rules[ARGV[first]]
  if not open then fail('a rule is not known: ' .. tostring(ARGV[first])) end
  local limit = open(KEYS[index], number(1), number(2), number(3))
  limits[index], numbers[index], waits[index] = limit, number, 0
  if what == 'give' then
    -- As in one.lua.
    local first, last, by = 4, size - 4, 4
    if limit.reserved > now then first, last, by = last, first, -by end
    for offset = first, last, by do
      limit:give(number(offset), number(offset + 1), number(offset + 2), number(offset + 3))
    end
  elseif what == 'charge' then
    limit:charge(number(4))
    waits[index] = limit:wait(0)
  elseif what == 'peek' then
    waits[index] = limit:wait(number(4))
    if waits[index] > 0 then done = 0 end
  end
end

if what == 'take' then
  done = 0
  local function cost(index) return numbers[index](4 + done) end
  while done < size - 4 do
    local fits = true
    for index, limit in ipairs(limits) do
      local n = cost(index)
      waits[index] = n > 0 and limit:wait(n) or 0
      fits = fits and waits[index] == 0
    end
    if not fits then break end
    for index, limit in ipairs(limits) do
      if cost(index) > 0 then limit:charge(cost(index)) end
    end
    done = done + 1
  end
end

local reply = { done, now }
for index, limit in ipairs(limits) do
  limit:save()
  local position, made = limit:ticket()
  for _, value in ipairs({ waits[index], limit:free(), limit:reset(), position, made }) do
    reply[#reply + 1] = value
  end
end
return reply
