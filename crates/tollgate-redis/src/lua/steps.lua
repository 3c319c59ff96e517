-- After debt.lua: the rules whose debt is paid off in steps.

local even = open

local function open(key, count, period, burst) return even(key, count, period, burst, 1) end
