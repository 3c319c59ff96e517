-- Leases: at most a number of permits at once, each until it is released or has expired.
--
-- KEYS[1]  a sorted set of the leases: the member is the id of the lease, the score the microsecond
--          in which it expires. A lease of n permits has n members: id, id:1 and so on.
-- KEYS[2]  a hash of their fencing numbers, by id
-- KEYS[3], KEYS[4], KEYS[7]  the line of the waiters
-- KEYS[5]  t:c:b, as whole numbers:
--   t  the microsecond of the last write
--   c  the last number of a lease or a ticket: each is max(c + 1, seen + 1, now), so that numbers rise
--      even if the previous one was lost
--   b  the birth, as in KEYS[6], from which this semaphore has recovered
-- KEYS[6]  the sentinel: the birth of the data, which is the microsecond in which a semaphore was
--          first used on it. It does not expire, and all semaphores share it. If it is missing, all
--          data was lost, or there was none yet; the script treats both alike.
--
-- ARGV[1]  the operation
-- ARGV[2]  the number of permits, ARGV[3] the ttl of a lease, ARGV[4] the grace: the time after the
--          birth in which no new caller is admitted, ARGV[5] the time in which the caller claims a ticket: in
-- microseconds ARGV[6]  the last microsecond in which the operation may be executed: a server that was stopped
--          executes calls whose callers have left. After it, nothing changes, and the reply is now.
-- ARGV[7]  and on, the arguments of the operation, and its reply:
--   acquire seen channel (id n ticket stays)...
--       `seen` is the highest number that the caller has got: after a failover to data and a clock that are
--       behind, the next number is still greater. `channel` is where the caller is told about its tickets, or
--       nothing. For each of the others: requests a lease of n, in the order of the tickets. `ticket` is the
--       number of the ticket, or 0 if there is none yet. A ticket that is missing is put back with its number.
--       With stays 0 the call does not wait: its ticket is removed. A lease that exists already keeps its
--       number, and lasts as long as a new one. Reply: now, the rest of the grace, the time until a lease
--       expires if the oldest ticket is the caller's, or 0; 1 if the first version has leases or tickets; 1 if a
--       ticket was put back; and for each the fencing number, or 0 if it was not admitted, and the number of its
--       ticket, or 0.
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

local MINUTE, DAY = 60000000, 86400000000

local leases, fences = KEYS[1], KEYS[2]

local function number(index)
  local value = tonumber(ARGV[index])
  if not value then fail('an argument is missing: ' .. index) end
  return value
end

local what, limit, ttl, grace, patience = ARGV[1], number(2), number(3), number(4), number(5)
if now > number(6) then return { now } end

local t, c, recovered = 0, 0, 0
local value = redis.call('GET', KEYS[5])
if value then
  local vt, vc, vb = value:match('^(%d+):(%d+):(%d+)$')
  t, c, recovered = stored(vt), stored(vc), stored(vb)
end

-- The server's clock was set back: expiries move back with it.
if now < t then
  for _, key in ipairs({ leases, ends }) do
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, text(now - t), member)
    end
  end
end
local stale = now < t

local born = redis.call('GET', KEYS[6])
if born then born = stored(born:match('^%d+$')) end
-- A birth in the future, after the clock was set back, counts as now.
if not born or (born > now and born ~= recovered) then
  born = now
  redis.call('SET', KEYS[6], text(born))
end
if now >= born + math.max(grace, ttl) then recovered = born end
-- Leases from before the birth may be asserted again.
local young = born ~= recovered
local rest = 0
if young then rest = math.max(0, born + grace - now) end

for _, member in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', text(now))) do
  redis.call('ZREM', leases, member)
  redis.call('HDEL', fences, member)
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', text(now))) do
  tear(member)
end

local function held() return redis.call('ZCARD', leases) end

local function room() return math.max(0, limit - held()) end

local seen = what == 'acquire' and number(7) or 0

local function following()
  c = math.max(c + 1, seen + 1, now)
  stale = true
  return c
end

-- Visits the members of a lease.
local function each(id, n, visit)
  visit(id)
  for index = 1, n - 1 do visit(id .. ':' .. index) end
end

-- Ensures that a key lasts at least this long.
local function lasts(key, micros)
  local millis = div_up(micros, 1000) + 1
  if redis.call('PTTL', key) < millis then redis.call('PEXPIRE', key, text(millis)) end
end

local function hold(id, n, fencing)
  each(id, n, function(member) redis.call('ZADD', leases, text(now + ttl), member) end)
  redis.call('HSET', fences, id, text(fencing))
  lasts(leases, ttl)
  lasts(fences, ttl)
  stale = true
end

-- A server without memory refuses the first write of a script, unless that write takes none. It must not lose a
-- lease.
local function room_for_renewals() redis.call('ZREM', leases, '') end

local function give(id, n)
  local count = 0
  each(id, n, function(member) count = count + redis.call('ZREM', leases, member) end)
  redis.call('HDEL', fences, id)
  return count
end

local function save()
  if stale then
    keep(KEYS[5], string.format('%.0f:%.0f:%.0f', now, c, recovered), DAY)
  end
end

-- Puts a ticket into the line, or back. Returns its number, and whether it was put back.
local function line_up(name, ticket, channel)
  local known, one = redis.call('ZSCORE', tickets, name), waiting(name)
  local is_back = ticket > 0 and not known
  if ticket == 0 then ticket = tonumber(known or '') or following() end
  if not known then redis.call('ZADD', tickets, text(ticket), name) end
  -- A call of the first version passes no ticket that has not expired.
  redis.call('ZADD', ends, text(now + MINUTE), name)
  -- Its process was heard, so it may be told again.
  local stuck = known and one and one.stuck or 0
  write(name, { told = 0, stuck = stuck, permits = limit, patience = patience, channel = channel })
  return ticket, is_back
end

-- The time until a lease expires, which tells nobody, for the process with the oldest ticket.
local function next_expiry(name)
  local oldest, first = redis.call('ZRANGE', tickets, 0, 0)[1], redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')
  if not oldest or not first[2] or process_of(oldest) ~= process_of(name) then return 0 end
  return math.max(1, tonumber(first[2]) - now)
end

if what == 'acquire' then
  local reply, claimed, leaving, back, last = {}, {}, {}, 0, nil
  local channel = ARGV[8]
  for index = 9, #ARGV, 4 do
    local id, n, ticket, stays = ARGV[index], number(index + 1), number(index + 2), number(index + 3)
    local name, fencing, place = id .. ':' .. text(n), 0, #reply + 1
    if redis.call('ZSCORE', leases, id) then
      fencing = tonumber(redis.call('HGET', fences, id) or '') or following()
      hold(id, n, fencing)
      tear(name)
      ticket = 0
    elseif rest == 0 and ticket == 0 and n <= room() and redis.call('ZCARD', tickets) == 0 then
      fencing = following()
      hold(id, n, fencing)
    else
      local is_back
      ticket, is_back = line_up(name, ticket, channel)
      if is_back then back = 1 end
      stale, last = true, name
      claimed[name] = { id = id, n = n, place = place }
      if stays == 0 then leaving[#leaving + 1] = { name = name, place = place } end
    end
    reply[place], reply[place + 1] = fencing, ticket
  end

  local function grant(name)
    local one, fencing = claimed[name], following()
    hold(one.id, one.n, fencing)
    tear(name)
    reply[one.place], reply[one.place + 1] = fencing, 0
  end
  if rest == 0 then serve(limit, held(), process_of(ARGV[9]), claimed, grant) end
  for _, one in ipairs(leaving) do
    tear(one.name)
    reply[one.place + 1] = 0
  end
  local soonest, first_version = 0, 0
  if last then
    lasts(tickets, MINUTE)
    lasts(ends, MINUTE)
    lasts(waits, MINUTE)
    soonest = next_expiry(last)
    first_version = has_first_version(leases) and 1 or 0
  end
  save()
  return { now, rest, soonest, first_version, back, unpack(reply) }
elseif what == 'renew' then
  local scores, expiry = {}, text(now + ttl)
  for index = 8, #ARGV do
    scores[#scores + 1] = expiry
    scores[#scores + 1] = ARGV[index]
  end
  room_for_renewals()
  -- All together, because each command costs time; but no function takes 8,000 arguments.
  local changed = 0
  for first = 1, #scores, 4000 do
    local last = math.min(first + 3999, #scores)
    changed = changed + redis.call('ZADD', leases, 'XX', 'CH', unpack(scores, first, last))
  end
  local all = changed == #scores / 2
  if all then c = math.max(c, number(7)) end
  lasts(leases, ttl)
  lasts(fences, ttl)
  stale = true
  save()
  return { now, all and 1 or 0 }
elseif what == 'assert' then
  local reply, last = { now }, c
  room_for_renewals()
  for index = 7, #ARGV, 3 do
    local id, n, fencing = ARGV[index], number(index + 1), number(index + 2)
    local there, verdict = 0, 0
    each(id, n, function(member)
      if redis.call('ZSCORE', leases, member) then there = there + 1 end
    end)
    if there == n then
      verdict = 1
    elseif rest > 0 or ((young or fencing > last) and n - there <= room()) then
      -- The data is older than the lease, or did not exist when the lease was granted.
      verdict = 2
    end
    if verdict > 0 then
      c = math.max(c, fencing)
      hold(id, n, fencing)
    else
      give(id, n)
    end
    reply[#reply + 1] = verdict
  end
  save()
  return reply
elseif what == 'release' then
  local count = 0
  for index = 7, #ARGV, 2 do
    local id, n = ARGV[index], number(index + 1)
    count = count + give(id, n)
    tear(id .. ':' .. text(n))
  end
  if rest == 0 then serve(limit, held(), process_of(ARGV[7]), {}) end
  save()
  return { now, count }
elseif what == 'look' then
  local free = room()
  if rest > 0 then free = 0 end
  save()
  return { now, rest, free }
else
  fail('what to do is not known: ' .. tostring(what))
end
