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

local tickets, ends, waits = KEYS[3], KEYS[4], KEYS[7]

-- For how long a ticket stays in front that only its own permits exclude.
local STUCK = 1000000

-- The numbers of tickets and leases that are read at once: the first two are enough in most calls. A number as an
-- argument of a command takes the server longer than a string.
local FEW, LAST_OF_FEW, MANY = 2, '1', 32

-- A whole number as a string. In two parts, because '%.0f' takes four times as long.
local function text(value)
  if value == now then return stamp end
  if value < 1000000 then return string.format('%d', value) end
  return string.format('%d%06d', math.floor(value / 1000000), value % 1000000)
end

-- Plain searches, because a pattern takes many times as long.
local function process_of(name)
  local dot = name:find('.', 1, true)
  return dot and name:sub(1, dot - 1) or name
end

-- The permits of a ticket: its id has no colon.
local function permits_of(name) return name:sub(name:find(':', 1, true) + 1) + 0 end

local function is_of_first_version(name) return not name:find('.', 1, true) end

-- Returns a ticket of the current version from its value.
local function waiting(value)
  if not value then return nil end
  local told, stuck, own, permits, patience, channel = value:match('^(%d+):(%d+):((%d+):(%d+):(.*))$')
  local one = { told = stored(told), stuck = stored(stuck), permits = stored(permits), patience = stored(patience) }
  one.own, one.channel = own, channel
  -- The clock was set back.
  if one.told > now then one.told = 0 end
  if one.stuck > now then one.stuck = 0 end
  return one
end

local function write(name, one)
  one.is_stored = true
  redis.call('HSET', waits, name, text(one.told) .. ':' .. text(one.stuck) .. ':' .. one.own)
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

-- Adds the values of the tickets in these lists to those by name, false for one that has none.
local function read(values, ...)
  local unread = {}
  for _, names in ipairs({ ... }) do
    for _, name in ipairs(names) do
      if values[name] == nil then unread[#unread + 1], values[name] = name, false end
    end
  end
  if not unread[1] then return end
  for place, value in ipairs(redis.call('HMGET', waits, unpack(unread))) do values[unread[place]] = value end
end

-- Serves the line in the order of the tickets, while `used` permits are held: grants those in `claimed` that fit,
-- which stay in the line, and tells the processes of the others to claim. A ticket fits if the permits that are
-- held, those that are kept for tickets before it, and its own are within the least of its permits and theirs.
-- The first one that does not fit ends the line, so nobody overtakes it. A process that does not claim in time,
-- or cannot be told, loses its place: all its tickets leave; but not those of `caller`, the process of this call,
-- unless it cannot be told. `claimed` has the tickets of the current version by name, which need not be stored yet;
-- `front` the first tickets of the line, or nil if they are not read yet; and `values` the values that were read.
-- Returns the names of those that are granted; the processes that have lost their places; the oldest ticket that is
-- left, false if there is none, or nil if that is not known; and the time after which the caller looks, if `claimed`
-- has a ticket of it, and it is the successor or has removed a process.
local function serve(limit, used, caller, claimed, front, values)
  local granted, gone, told, most = {}, {}, {}, MOST
  -- The least cost of a ticket that was passed, by process.
  local passed = {}
  local index, page, is_last = 0, FEW, false
  local ended, is_new, patience, successor, oldest = false, false, 0, nil, nil

  while not is_last and (not ended or next(told) and not successor) do
    local names = front or page == FEW and redis.call('ZRANGE', tickets, '0', LAST_OF_FEW)
      or redis.call('ZRANGE', tickets, index, index + page - 1)
    is_last, front, page = #names < page, nil, MANY
    read(values, names)
    for _, name in ipairs(names) do
      local process, n = process_of(name), permits_of(name)
      local value = claimed[name] or values[name]
      index = index + 1
      if not value and (not is_of_first_version(name) or not redis.call('ZMSCORE', ends, name)[1]) then
        -- Its data was lost.
        tear(name)
        index = index - 1
      elseif ended then
        -- Behind the end of the line only the successor is looked for.
        if value and not told[process] and not gone[process] then successor = { name, value } end
      elseif not gone[process] then
        local one = claimed[name] or waiting(value)
        local bound = math.min(most, one and one.permits or limit)
        local is_granted = false
        if used + n > bound then
          -- It is passed, and keeps its number, if only its own permits exclude it, and that for a second, or a
          -- ticket of its process for no more was passed.
          ended = not one or used + n > math.min(most, limit)
          if not ended and n < (passed[process] or MOST) then
            if one.stuck == 0 then
              one.stuck = now
              write(name, one)
            end
            ended = now - one.stuck < STUCK
            if not ended then passed[process] = n end
          end
          if ended and one and not told[process] then successor = { name, value } end
        elseif claimed[name] then
          granted[#granted + 1], is_granted = name, true
          used = used + n
        elseif one then
          local is_alive = now - one.told < one.patience
          -- The caller is alive, so a message that it has not followed may be lost: it is told once more.
          if one.told == 0 or not is_alive and process == caller then
            one.told, is_new = now, true
            write(name, one)
            is_alive = tell(one.channel, process .. ' claim ' .. name)
          end
          if is_alive then
            used, most, told[process] = used + n, bound, true
            patience = math.max(patience, one.told + one.patience - now)
          else
            gone[process] = true
          end
        else
          -- The first version polls.
          used = used + n
        end
        if not oldest and not is_granted and not gone[process] then oldest = name end
      end
      if ended and (successor or not next(told)) then break end
    end
  end
  if next(gone) then
    for _, name in ipairs(redis.call('ZRANGE', tickets, 0, -1)) do
      if gone[process_of(name)] then tear(name) end
    end
    oldest = nil
  elseif not oldest and is_last then
    oldest = false
  end

  -- The successor looks when the time of those that were told is over: by the reply, if it is the caller. So does a
  -- caller that has removed a process, because those that were told and the successor may be stopped as well.
  local soon, _, own = nil, next(claimed)
  if next(told) and next(gone) and own and own.channel ~= '' then soon = patience end
  if successor and next(told) then
    local process, one = process_of(successor[1]), claimed[successor[1]] or waiting(successor[2])
    if one.channel == '' then
      -- It polls.
    elseif process == caller and own then
      soon = patience
    elseif is_new then
      tell(one.channel, process .. ' soon ' .. text(patience))
    end
  end
  return granted, gone, oldest, soon
end
