-- What stands in front of a script in a test: the clock is a key that the test sets, and no key expires by the server's
-- clock, so a script finds no time to live and writes again. The microsecond in which a key would end is another key.
local server = redis
local function clock() return server.call('GET', 'clock') end
local function end_of(key) return 'end of ' .. key end
local function keep(key, millis) server.call('SET', end_of(key), string.format('%.0f', clock() + 1000 * millis)) end

local function run(by, command, ...)
  local key, value, option, millis = ...
  if command == 'TIME' then
    local time = clock()
    return { time:sub(1, -7), time:sub(-6) }
  elseif command == 'PEXPIRE' then
    keep(key, value)
    return 1
  elseif command == 'SET' then
    if option == 'PX' then keep(key, millis) end
    return by('SET', key, value)
  elseif command == 'DEL' then
    server.call('DEL', end_of(key))
  elseif command == 'PUBLISH' then
    -- Each message arrives, as in memory.
    return 1
  end
  return by(command, ...)
end
local redis = {
  call = function(...) return run(server.call, ...) end,
  pcall = function(...) return run(server.pcall, ...) end,
}
