-- Gives each request of wrk a network. Arguments: the starting position in the order of the networks, the stride of
-- that order, and the number of networks.
local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

function init(arguments)
    position, calls = tonumber(arguments[1]), 0
    stride, networks = tonumber(arguments[2]), tonumber(arguments[3])
end

function request()
    calls = calls + 1
    local network
    if calls % 100 == 0 then
        network = (calls / 100) % 10
    else
        network = (position * stride) % networks
        position = position + 1
    end
    local high, low = math.floor(network / 65536), network % 65536
    return string.format(
        "GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 2001:db8:%x:%x::1\r\n\r\n", high, low)
end

function done(summary, latency)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.timeout
    print(string.format("measured %d %d %d %d %d %d", threads[1]:get("position"),
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        failed))
end
