-- Operations of several semaphores in one call, in their order. `semaphore` is a function of the keys and the arguments
-- of one.
--
-- KEYS     the seven keys of each
-- ARGV     for each the number of its arguments, and these
-- Reply: for each its reply. If one fails, the call fails: those before it were executed, and each can be repeated.

local replies, key, argument = {}, 0, 1
while argument <= #ARGV do
  local keys, arguments, count = {}, {}, ARGV[argument] + 0
  for index = 1, 7 do keys[index] = KEYS[key + index] end
  for index = 1, count do arguments[index] = ARGV[argument + index] end
  replies[#replies + 1] = semaphore(keys, arguments)
  key, argument = key + 7, argument + count + 1
end
return replies
