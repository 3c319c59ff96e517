-- The line of a semaphore: the tickets of its waiters, and the one rule that serves them.
--
-- KEYS[3]  a sorted set of the tickets: the member is id:n, the score its number. The ids of one process begin
--          with its name and a dot. Those of the first version have no dot.
-- KEYS[4]  the same members, the score the microsecond in which the ticket expires: for the first version, which
--          knows nothing else about tickets, and polls
-- KEYS[7]  a hash. For each ticket of the current version h:s:p:w:c, as whole numbers and a text:
--   h  the microsecond in which its process was told to claim it, or 0
--   s  the microsecond since which it stands in front although only its own permits are too few, or 0
--   p  the permits of its process
--   w  the time in which its process claims it, in microseconds
--   c  the channel of its process, or nothing if the process only looks
-- and 'next': the process that was told to look soon, and its channel.

local tickets, ends, waits = KEYS[3], KEYS[4], KEYS[7]

-- For how long a ticket stays in front that only its own permits exclude.
local STUCK = 1000000

local function text(value) return string.format('%.0f', value) end

local function process_of(name) return name:match('^(.-)%.') or name end

local function is_of_first_version(name) return not name:find('.', 1, true) end

-- Returns a ticket of the current version.
local function waiting(name)
  local value = redis.call('HGET', waits, name)
  if not value then return nil end
  local told, stuck, permits, patience, channel = value:match('^(%d+):(%d+):(%d+):(%d+):(.*)$')
  local one = { told = stored(told), stuck = stored(stuck), permits = stored(permits), patience = stored(patience) }
  one.channel, one.process = channel, process_of(name)
  -- The clock was set back.
  if one.told > now then one.told = 0 end
  if one.stuck > now then one.stuck = 0 end
  return one
end

local function write(name, one)
  local numbers = string.format('%.0f:%.0f:%.0f:%.0f:', one.told, one.stuck, one.permits, one.patience)
  redis.call('HSET', waits, name, numbers .. one.channel)
end

local function tear(name)
  redis.call('ZREM', tickets, name)
  redis.call('ZREM', ends, name)
  redis.call('HDEL', waits, name)
end

-- Sends a message to a process. Returns whether it may arrive; without the right to publish that is not known.
local function tell(channel, message)
  if channel == '' then return true end
  local receivers = redis.pcall('PUBLISH', channel, message)
  return type(receivers) == 'table' or receivers > 0
end

-- Removes all tickets of these processes.
local function remove(gone)
  if not next(gone) then return end
  for _, name in ipairs(redis.call('ZRANGE', tickets, 0, -1)) do
    if gone[process_of(name)] then tear(name) end
  end
end

-- Serves the line in the order of the tickets, while `used` permits are held: calls `grant` for those in
-- `claimed` that fit, and tells the processes of the others to claim. A ticket fits if the permits that are
-- held, those that are kept for tickets before it, and its own are within the least of its permits and theirs.
-- The first one that does not fit ends the line, so nobody overtakes it. A process that does not claim in time,
-- or cannot be told, loses its place: all its tickets leave; but not those of `caller`, the process of this call.
local function serve(limit, used, caller, claimed, grant)
  local most, gone, told, is_new, patience = MOST, {}, {}, false, 0
  -- The least cost of a ticket that was passed, by process.
  local passed = {}
  local index, successor, ended = 0, nil, false

  local function keep_for(name, one, n, bound)
    local is_alive = now - one.told < one.patience
    if one.told == 0 then
      one.told, is_new = now, true
      write(name, one)
      is_alive = tell(one.channel, one.process .. ' claim ' .. name)
    elseif not is_alive and one.process == caller then
      one.told, is_new, is_alive = now, true, true
      write(name, one)
    end
    if not is_alive then
      gone[one.process] = true
      return
    end
    used, most, told[one.process] = used + n, bound, true
    patience = math.max(patience, one.told + one.patience - now)
  end

  -- Returns whether a ticket that does not fit is passed, and keeps its number: only its own permits exclude it,
  -- and that for a second, or a ticket of its process for no more was passed.
  local function is_passed(name, one, n)
    if not one or used + n > math.min(most, limit) then return false end
    if n >= (passed[one.process] or MOST) then return true end
    if one.stuck == 0 then
      one.stuck = now
      write(name, one)
    end
    if now - one.stuck < STUCK then return false end
    passed[one.process] = n
    return true
  end

  local function visit(name)
    -- Behind the end of the line only the successor is looked for.
    if ended and told[process_of(name)] then return end
    local n, one = tonumber(name:match(':(%d+)$')), waiting(name)
    if not one and (not is_of_first_version(name) or not redis.call('ZSCORE', ends, name)) then
      -- Its data was lost.
      tear(name)
      index = index - 1
      return
    end
    if one and gone[one.process] then return end
    if ended then
      successor = one
      return
    end
    local bound = math.min(most, one and one.permits or limit)
    if used + n > bound then
      ended = not is_passed(name, one, n)
      if ended and one and not told[one.process] then successor = one end
    elseif claimed[name] then
      grant(name)
      used, index = used + n, index - 1
    elseif one then
      keep_for(name, one, n, bound)
    else
      -- The first version polls.
      used = used + n
    end
  end

  while not ended or (next(told) and not successor) do
    local page = redis.call('ZRANGE', tickets, text(index), text(index + 15))
    if #page == 0 then break end
    for _, name in ipairs(page) do
      index = index + 1
      visit(name)
      if successor then break end
    end
  end
  remove(gone)

  -- The successor looks when the time of those that were told is over; and it need not if nobody is waited for.
  local before = redis.call('HGET', waits, 'next')
  if next(told) then
    if successor and successor.channel ~= '' and (is_new or not before) then
      redis.call('HSET', waits, 'next', successor.process .. ' ' .. successor.channel)
      tell(successor.channel, successor.process .. ' soon ' .. text(patience))
    end
  elseif before then
    local process, channel = before:match('^(%S+) (.*)$')
    redis.call('HDEL', waits, 'next')
    if process then tell(channel, process .. ' calm 0') end
  end
end

-- Whether the first version has a ticket or a lease, whose end tells nobody.
local function has_first_version(leases)
  for _, key in ipairs({ ends, leases }) do
    for _, member in ipairs(redis.call('ZRANGE', key, 0, 99)) do
      if is_of_first_version(member) then return true end
    end
  end
  return false
end
