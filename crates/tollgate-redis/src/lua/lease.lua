-- Leases: at most a number of permits at once, each until it is released or has expired.
--
-- KEYS[1]  a sorted set of the leases: the member is the id of the lease, the score the microsecond
--          in which it expires. A lease of n permits has n members: id, id:1 and so on.
-- KEYS[2]  a hash of the fencing numbers of the first version's leases, by id: not read, but removed at their expiry
-- KEYS[3], KEYS[4], KEYS[7]  the line of the waiters
-- KEYS[5]  t:c:b, as whole numbers:
--   t  the microsecond of the last write. It begins with 0 if the first version had no lease and no ticket when
--      this version looked for the last time; the first version writes no such number, but reads it.
--   c  the last number of a lease or a ticket: each is max(c + 1, seen + 1, now), so that numbers rise
--      even if the previous one was lost
--   b  the birth, as in KEYS[6], from which this semaphore has recovered
-- KEYS[6]  the sentinel: the birth of the data, which is the microsecond in which a semaphore was
--          first used on it. It does not expire, and all semaphores share it. If it is missing, all
--          data was lost, or there was none yet; the script treats both alike. A semaphore that has
--          recovered does not read it: whoever loses the sentinel loses KEYS[5] too.
--
-- ARGV[1]  the operation
-- ARGV[2]  the number of permits, ARGV[3] the ttl of a lease, ARGV[4] the grace: the time after the
--          birth in which no new caller is admitted, ARGV[5] the time in which the caller claims a ticket: in
--          microseconds
-- ARGV[6]  the last microsecond in which the operation may be executed: a server that was stopped
--          executes calls whose callers have left. After it, nothing changes, and the reply is now.
-- ARGV[7]  the time in microseconds for which the state is kept after the last use, and at least as long as a lease:
--          expiries are relative to it when the clock is set back
-- ARGV[8]  and on, the arguments of the operation, and its reply:
--   acquire seen channel (id n ticket stays)...
--       `seen` is the highest number that the caller has got: after a failover to data and a clock that are
--       behind, the next number is still greater. `channel` is where the caller is told about its tickets, or
--       nothing. For each of the others: requests a lease of n, in the order of the tickets. `ticket` is the
--       number of the ticket, or 0 if there is none yet. A ticket that is missing is put back with its number.
--       With stays 0 the call does not wait: its ticket is removed. A lease that exists already, because the reply
--       of an earlier call was lost, gets the next number, and lasts as long as a new one. Reply: now, the rest of
--       the grace; the time after which the caller looks, or 0: until a lease expires, if the oldest ticket is the
--       caller's, and until the processes before it should have claimed; 1 if the first version has leases or tickets;
--       1 if a ticket was put back; the number of tickets before the first one of the call, or 0 if that is new, was
--       told, or stands in front; and for each the fencing number, or 0 if it was not admitted, and the number of
--       its ticket, or 0.
--   renew fencing member...
--       Renews the leases with these members, of which `fencing` is the highest number. Reply: now, and 1; or 0 if
--       some do not exist: then they have to be asserted.
--   assert (id n fencing)...
--       Reply: now, and for each 0 if the lease is lost, 1 if it is renewed, 2 if it was not known, and is
--       asserted again.
--   release (id n)...
--       Releases leases and tickets. Reply: now, the number of members of leases that existed.
--   look
--       Reply: now, the rest of the grace, and the permits that are free.
--
-- The number of permits is not exceeded: only `acquire` adds leases while permits are free, and
-- `assert` leases that are older than a loss of data. No call is admitted before an older ticket.

local SECOND, MINUTE = 1000000, 60000000

-- The number of leases and tickets in which the first version is looked for.
local SOME = 100

local leases, fences = KEYS[1], KEYS[2]
local what, limit, ttl, grace, patience = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0
if now > ARGV[6] + 0 then return { now } end

local t, c, recovered, has_first_version = 0, 0, 0, true
local value = redis.call('GET', KEYS[5])
if value then
  local vt, vc, vb = value:match('^(%d+):(%d+):(%d+)$')
  t, c, recovered = stored(vt), stored(vc), stored(vb)
  has_first_version = vt:sub(1, 1) ~= '0'
end

-- The server's clock was set back: expiries move back with it.
local stale = now < t
if stale then
  for _, key in ipairs({ leases, ends }) do
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, text(now - t), member)
    end
  end
end

-- Leases from before the birth may be asserted again.
local young, rest = false, 0
if recovered == 0 then
  local born = redis.call('GET', KEYS[6])
  if born then born = stored(born:match('^%d+$')) end
  -- A birth in the future, after the clock was set back, counts as now.
  if not born or born > now then
    born = now
    redis.call('SET', KEYS[6], text(born))
  end
  if now >= born + math.max(grace, ttl) then
    recovered = born
  else
    young, rest = true, math.max(0, born + grace - now)
  end
end

-- The tickets of this version need not leave at once when they expire.
if has_first_version or math.floor(t / SECOND) ~= math.floor(now / SECOND) then
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', stamp)) do tear(member) end
end

local oldest_leases = redis.call('ZRANGE', leases, '0', LAST_OF_FEW, 'WITHSCORES')
if oldest_leases[1] and oldest_leases[2] + 0 <= now then
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', stamp)) do
    redis.call('ZREM', leases, member)
    redis.call('HDEL', fences, member)
  end
  oldest_leases = redis.call('ZRANGE', leases, '0', LAST_OF_FEW, 'WITHSCORES')
end
-- The number of permits that are held.
local held = #oldest_leases / 2
if held == FEW then held = redis.call('ZCARD', leases) end

-- Calls a command with a list of arguments, in parts: no function takes 8,000. Returns the sum of the replies.
local function in_parts(command, key, list)
  local sum = 0
  for first = 1, #list, 4000 do
    sum = sum + redis.call(command, key, unpack(list, first, math.min(first + 3999, #list)))
  end
  return sum
end

-- Keeps keys for twice this time, so that few calls have to do it.
local function keep_twice(micros, ...)
  for _, key in ipairs({ ... }) do redis.call('PEXPIRE', key, text(math.ceil(micros / 500) + 1)) end
end

local is_created, holds = held == 0, false

-- Adds a lease, or lets it last as long as a new one.
local function hold(id, n)
  local expiry = text(now + ttl)
  local scores = { expiry, id }
  for index = 1, n - 1 do
    scores[#scores + 1] = expiry
    scores[#scores + 1] = id .. ':' .. index
  end
  held = held + in_parts('ZADD', leases, scores)
  stale, holds = true, true
end

-- Removes a lease. Returns the number of its members that existed.
local function give(id, n)
  local members = { id }
  for index = 1, n - 1 do members[index + 1] = id .. ':' .. index end
  local count = in_parts('ZREM', leases, members)
  held = held - count
  return count
end

-- A server without memory refuses the first write of a script, unless that write takes none. It must not lose a
-- lease.
if what == 'renew' or what == 'assert' then redis.call('ZREM', leases, '') end

local reply
if what == 'acquire' then
  local seen, channel, process = ARGV[8] + 0, ARGV[9], process_of(ARGV[10])
  local function following()
    c = math.max(c + 1, seen + 1, now)
    stale = true
    return c
  end

  local ids, names = {}, {}
  for index = 10, #ARGV, 4 do
    ids[#ids + 1] = ARGV[index]
    names[#names + 1] = ARGV[index] .. ':' .. ARGV[index + 1]
  end
  -- What is known of them: when their leases expire, and the numbers and values of their tickets.
  local expiries, numbers, values, ahead = {}, {}, {}, 0
  if held > 0 then expiries = redis.call('ZMSCORE', leases, unpack(ids)) end
  local front = redis.call('ZRANGE', tickets, '0', LAST_OF_FEW)
  local has_line, was_empty = front[1] ~= nil, front[1] == nil
  if has_line then
    read(values, front, names)
    local others = {}
    for place, name in ipairs(names) do
      local ticket = ARGV[8 + 4 * place]
      if ticket ~= '0' and (name == front[1] or name == front[2]) then
        numbers[name] = ticket
      elseif ticket ~= '0' or values[name] then
        others[#others + 1] = name
      end
    end
    if others[1] then
      local scores = redis.call('ZMSCORE', tickets, unpack(others))
      for place, name in ipairs(others) do numbers[name] = scores[place] end
      local first = names[1]
      if first == others[1] and scores[1] and values[first] and values[first]:sub(1, 2) == '0:' then
        ahead = redis.call('ZCOUNT', tickets, '-inf', '(' .. scores[1])
      end
    end
  end

  local places, claimed, added, back = {}, {}, {}, 0
  local own = ARGV[2] .. ':' .. ARGV[5] .. ':' .. channel
  -- The value of most tickets.
  local plain = '0:0:' .. own
  for place, id in ipairs(ids) do
    local index, name, fencing = 6 + 4 * place, names[place], 0
    local n, ticket = ARGV[index + 1] + 0, ARGV[index + 2] + 0
    if expiries[place] then
      fencing = following()
      hold(id, n)
      if numbers[name] then
        tear(name)
        front = nil
      end
      ticket = 0
    elseif rest == 0 and ticket == 0 and held + n <= limit and not has_line then
      fencing = following()
      hold(id, n)
    else
      -- The ticket is put into the line, or back.
      local known, before = numbers[name], nil
      if known then
        if ticket == 0 then ticket = known + 0 end
        if values[name] ~= plain then before = waiting(values[name]) end
      else
        if ticket > 0 then back = 1 else ticket = following() end
        added[#added + 1] = text(ticket)
        added[#added + 1] = name
      end
      -- Its process was heard, so it may be told again.
      local stuck = before and before.stuck or 0
      claimed[name] = {
        told = 0, stuck = stuck, permits = limit, patience = patience, channel = channel, own = own,
        is_stored = values[name] == plain and known,
        id = id, n = n, place = place, stays = ARGV[index + 3] ~= '0',
      }
      stale, has_line = true, true
    end
    places[2 * place - 1], places[2 * place] = fencing, ticket
  end
  if added[1] then
    redis.call('ZADD', tickets, unpack(added))
    -- An earlier form of the line left this field behind.
    if was_empty then redis.call('HDEL', waits, 'next') end
    front = nil
  end

  local gone, oldest, soon = {}, nil, nil
  if rest == 0 then
    local granted
    granted, gone, oldest, soon = serve(limit, held, process, claimed, front, values)
    for _, name in ipairs(granted) do
      local one, fencing = claimed[name], following()
      hold(one.id, one.n)
      places[2 * one.place - 1], one.stays = fencing, false
    end
  end

  -- A call of the first version passes no ticket that has not expired, so tickets of this version expire too.
  local until_then, staying = text(now + MINUTE), {}
  for name, one in pairs(claimed) do
    if not one.stays then
      tear(name)
      places[2 * one.place] = 0
      if name == oldest then oldest = nil end
    elseif not gone[process] then
      if not one.is_stored then write(name, one) end
      staying[#staying + 1] = until_then
      staying[#staying + 1] = name
    end
  end
  if #staying > 0 then
    redis.call('ZADD', ends, unpack(staying))
    -- The other two do not expire before this one, unless the first version made them, for its own time.
    if was_empty or redis.call('PTTL', waits) * 1000 < MINUTE
      or has_first_version and redis.call('PTTL', tickets) * 1000 < MINUTE then
      keep_twice(MINUTE, tickets, ends, waits)
    end
  end

  local soonest, old = soon or 0, 0
  if next(claimed) then
    -- The time until a lease expires, which tells nobody, for the process with the oldest ticket.
    if oldest == nil then oldest = redis.call('ZRANGE', tickets, '0', '0')[1] end
    if oldest and process_of(oldest) == process then
      local first = redis.call('ZRANGE', leases, '0', '0', 'WITHSCORES')[2]
      if first then soonest = math.min(soon or MOST, math.max(1, first - now)) end
    end
    -- Whether the first version has a ticket or a lease, whose end tells nobody. It has written the state before.
    if has_first_version then
      has_first_version = false
      for _, key in ipairs({ ends, leases }) do
        local some = redis.call('ZRANGE', key, 0, SOME - 1)
        for _, member in ipairs(some) do
          if is_of_first_version(member) then old = 1 end
        end
        has_first_version = has_first_version or old > 0 or #some == SOME
      end
    end
  end
  reply = { now, rest, soonest, old, back, ahead, unpack(places) }
elseif what == 'renew' then
  local changed, expiry = 0, text(now + ttl)
  for first = 9, #ARGV, 2000 do
    local scores = {}
    for index = first, math.min(first + 1999, #ARGV) do
      scores[#scores + 1] = expiry
      scores[#scores + 1] = ARGV[index]
    end
    -- Together, because each command costs time.
    changed = changed + redis.call('ZADD', leases, 'XX', 'CH', unpack(scores))
  end
  local all = changed == #ARGV - 8
  if all then c = math.max(c, ARGV[8] + 0) end
  stale, holds = true, true
  reply = { now, all and 1 or 0 }
elseif what == 'assert' then
  local last = c
  reply = { now }
  for index = 8, #ARGV, 3 do
    local id, n, fencing = ARGV[index], ARGV[index + 1] + 0, ARGV[index + 2] + 0
    local there, verdict = redis.call('ZMSCORE', leases, id)[1] and 1 or 0, 0
    for number = 1, n - 1 do
      if redis.call('ZMSCORE', leases, id .. ':' .. number)[1] then there = there + 1 end
    end
    if there == n then
      verdict = 1
    elseif rest > 0 or ((young or fencing > last) and held + n - there <= limit) then
      -- The data is older than the lease, or did not exist when the lease was granted.
      verdict = 2
      tear(id .. ':' .. n)
    end
    if verdict > 0 then
      c = math.max(c, fencing)
      hold(id, n)
    else
      give(id, n)
    end
    reply[#reply + 1] = verdict
  end
elseif what == 'release' then
  local count = 0
  for index = 8, #ARGV, 2 do
    local id, n = ARGV[index], ARGV[index + 1] + 0
    local given = give(id, n)
    count = count + given
    -- A lease has no ticket any more.
    if given == 0 then tear(id .. ':' .. ARGV[index + 1]) end
  end
  if rest == 0 then serve(limit, held, process_of(ARGV[8]), {}, nil, {}) end
  reply = { now, count }
elseif what == 'look' then
  reply = { now, rest, rest > 0 and 0 or math.max(0, limit - held) }
else
  fail('what to do is not known: ' .. tostring(what))
end

if holds and (is_created or redis.call('PTTL', leases) * 1000 < ttl) then keep_twice(ttl, leases) end
if stale then
  local mark = has_first_version and '' or '0'
  redis.call('SET', KEYS[5], mark .. stamp .. ':' .. text(c) .. ':' .. text(recovered), 'PX', millis(ARGV[7] + 0))
end
return reply
