#!lua name=@NAME@
-- Exact limits over all draws of a request; redis.rs states the guarantees.
--
-- Numbers are doubles, so every integer here stays below 2^53. A level is `u` whole units and `r`
-- parts; a unit has as many parts as the window has microseconds. So nothing is rounded, and nothing
-- is lost between two calls.

local LOADED_RUN, LOADED_BORN = '@RUN@', @BORN@
local MOST = 2 ^ 52
local MINIMA = 8
local LEASES = 32
local WAITING = 8
-- Time for which a node's open reservations are kept without a further report.
local HOLD = 300000000
-- Rates over at least this window are seeded after a loss, and so are not used up by it.
local LONG = 3600000000
-- Seeds are repeated at doubling intervals from the first to the last of these ages of a run.
local SEED_FIRST, SEED_LAST = 30000000, 3600000000
local RATE, SPEND, HELD = 0, 1, 2

-- The time since which the data is complete: 0 for always. Earlier data may lack acknowledged
-- changes. The variable lives as long as this process of the store.
local born

local function begin(durable, now)
  if born then return end
  local ok, info = pcall(redis.call, 'INFO', 'server')
  local run = ok and type(info) == 'string' and string.match(info, 'run_id:(%x+)')
  if durable or run == LOADED_RUN then born = LOADED_BORN else born = now end
end

local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Returns amount * span / window as whole units and parts, for span < window < 2^37.
local function refilled(amount, span, window)
  local units, parts = 0, 0
  for place = 3, 0, -1 do
    local digit = math.floor(amount / 32768 ^ place) % 32768
    local sum = parts * 32768 + digit * span
    units, parts = units * 32768 + math.floor(sum / window), sum % window
  end
  return units, parts
end

local function less(u, r, v, s) return u < v or (u == v and r < s) end

local function minus(u, r, v, s, window)
  if less(u, r, v, s) then return 0, 0 end
  if r < s then return u - v - 1, r + window - s end
  return u - v, r - s
end

local function note(m)
  local all = m.minima
  while #all > 0 and not less(all[#all].u, all[#all].r, m.u, m.r) do table.remove(all) end
  if #all == MINIMA then
    -- Merge the two with the smallest difference.
    local nearest, by, by_r = 1, 2 * MOST, 0
    for n = 1, MINIMA - 1 do
      local u, r = minus(all[n + 1].u, all[n + 1].r, all[n].u, all[n].r, m.window)
      if less(u, r, by, by_r) then nearest, by, by_r = n, u, r end
    end
    all[nearest + 1].u, all[nearest + 1].r = all[nearest].u, all[nearest].r
    table.remove(all, nearest)
  end
  all[#all + 1] = { at = m.at, u = m.u, r = m.r }
end

local function use(m, amount)
  if m.kind == RATE then note(m) end
  m.u = math.min(m.u + amount, MOST)
end

local function advance(m, now)
  if now <= m.at then return end
  local span = now - m.at
  local windows = math.floor(span / m.window)
  m.at = now
  if windows * m.limit > m.u then m.u, m.r = 0, 0 return end
  local units, parts = refilled(m.limit, span % m.window, m.window)
  m.u, m.r = minus(m.u, m.r, windows * m.limit + units, parts, m.window)
end

-- Expired leases count as used from their end on.
local function lapse(m, now)
  table.sort(m.leases, function(a, b) return a.ends < b.ends end)
  while #m.leases > 0 and m.leases[1].ends <= now do
    local lease = table.remove(m.leases, 1)
    if m.kind == RATE then advance(m, lease.ends) end
    use(m, lease.amount)
  end
end

local function leased(m)
  local sum, ends = 0, 0
  for _, lease in ipairs(m.leases) do sum, ends = sum + lease.amount, math.max(ends, lease.ends) end
  return sum, ends
end

local function is_long(kind, window) return kind == RATE and window >= LONG end

-- Treats data from before this run of the store as used up when the run began.
local function drain(m)
  if m.at >= born or is_long(m.kind, m.window) then return end
  for _, lease in ipairs(m.leases) do use(m, lease.amount) end
  m.leases = {}
  advance(m, born)
  if m.u < m.limit then
    note(m)
    m.u, m.r = m.limit, 0
  end
  m.at = born
end

local function fresh(kind, limit, window, now)
  local m = { kind = kind, u = 0, r = 0, at = now, limit = limit, window = window }
  m.promised, m.minima, m.leases, m.waiting, m.holders, m.run = 0, {}, {}, {}, {}, -1
  if kind == RATE and born > 0 and not is_long(kind, window) then
    m.u, m.at = limit, born
    advance(m, now)
  end
  return m
end

local function load(key, name)
  local packed = redis.call('HGET', key, name)
  if not packed then return nil end
  local p = cmsgpack.unpack(packed)
  local m = { kind = p[1], u = p[2], r = p[3], at = p[4], limit = p[5], window = p[6] }
  m.promised, m.run, m.minima, m.leases, m.waiting, m.holders = p[7], p[8], {}, {}, {}, {}
  local at = 11
  for n = 1, p[10] do
    m.minima[n] = { at = p[at], u = p[at + 1], r = p[at + 2] }
    at = at + 3
  end
  for n = 1, p[at] do
    m.leases[n] = { id = p[at + 1], amount = p[at + 2], ends = p[at + 3] }
    at = at + 3
  end
  -- The first version ends here, the second one after the clients that wait.
  for n = 1, p[at + 1] or 0 do
    m.waiting[n] = { client = p[at + 2], due = p[at + 3] }
    at = at + 2
  end
  at = at + 1
  for n = 1, p[at + 1] or 0 do
    m.holders[n] = {
      node = p[at + 2], amount = p[at + 3], ends = p[at + 4], reported = p[at + 5], latest = p[at + 6],
    }
    at = at + 5
  end
  return m
end

local function save(key, name, m)
  -- The ninth is of earlier versions.
  local p = { m.kind, m.u, m.r, m.at, m.limit, m.window, m.promised, m.run, 0, #m.minima }
  for _, one in ipairs(m.minima) do
    p[#p + 1] = one.at
    p[#p + 1] = one.u
    p[#p + 1] = one.r
  end
  p[#p + 1] = #m.leases
  for _, lease in ipairs(m.leases) do
    p[#p + 1] = lease.id
    p[#p + 1] = lease.amount
    p[#p + 1] = lease.ends
  end
  p[#p + 1] = #m.waiting
  for _, one in ipairs(m.waiting) do
    p[#p + 1] = one.client
    p[#p + 1] = one.due
  end
  p[#p + 1] = #m.holders
  for _, one in ipairs(m.holders) do
    p[#p + 1] = one.node
    p[#p + 1] = one.amount
    p[#p + 1] = one.ends
    p[#p + 1] = one.reported
    p[#p + 1] = one.latest
  end
  redis.call('HSET', key, name, cmsgpack.pack(p))
end

-- What a node that has died had reserved counts as settled.
local function expire(m, now)
  for n = #m.holders, 1, -1 do
    if m.holders[n].ends <= now or m.holders[n].amount <= 0 then table.remove(m.holders, n) end
  end
end

-- The open reservations of a node, which it begins lease ids with.
local function holder(m, lease, now)
  local node = string.match(lease, '^%x+')
  local found
  for _, one in ipairs(m.holders) do
    if one.node == node then found = one end
  end
  if not found then
    found = { node = node, amount = 0, reported = 0, latest = 0 }
    m.holders[#m.holders + 1] = found
  end
  found.ends = now + HOLD
  return found
end

-- A node numbers its calls, and its reports of all that it has open, which arrive in any order. A report includes the
-- calls with numbers up to its own: an older one than a call is dropped, and a call that it includes is not added.
local function hold(m, lease, amount, number, now)
  local held = holder(m, lease, now)
  if number > held.reported then held.amount = held.amount + amount end
  held.latest = math.max(held.latest, number)
end

local function report(m, lease, open, number, now)
  local held = holder(m, lease, now)
  if number >= math.max(held.latest, held.reported) then held.amount, held.reported = open, number end
end

local function reserved(m)
  local sum = 0
  for _, one in ipairs(m.holders) do sum = sum + one.amount end
  return math.min(sum, m.u)
end

local function begin_month(m, month) m.u, m.window, m.leases, m.holders = 0, month, {}, {} end

-- Loads a meter as of now. `limit` is -1 for spend without a limit; for spend, `window` is the month.
local function meter(key, kind, name, limit, window, now)
  local m = load(key, name)
  if not m or m.kind ~= kind or (kind == RATE and m.window ~= window) then
    m = fresh(kind, limit, window, now)
  end
  if kind == RATE then
    drain(m)
    lapse(m, now)
    advance(m, now)
  elseif kind == SPEND then
    -- A clock was set if the month is neither that of the meter nor next to it.
    m.astray = math.abs(window - m.window) > 1
    if window > m.window and not m.astray then begin_month(m, window) end
    lapse(m, now)
    expire(m, now)
  end
  m.limit = limit
  return m
end

local function room(m)
  if m.limit < 0 then return MOST - m.u - leased(m) end
  local up = m.r > 0 and 1 or 0
  return m.limit - m.u - up - leased(m)
end

-- Nothing always fits into a rate, in debt too.
local function fits_into(m, sum) return (m.kind == RATE and sum == 0) or sum <= room(m) end

-- Time in which the level falls by this amount: rounded up, by less than two microseconds, and at
-- most 2^52.
local function time_for(m, units, parts)
  if units < 0 or (units == 0 and parts == 0) then return 0 end
  if m.limit <= 0 then return -1 end
  local time = (units + parts / m.window) / m.limit * m.window * (1 + 2 ^ -50) + 0.001
  return math.min(math.ceil(time), MOST)
end

-- Uses one unit for a refused request, if it fits and no client waits.
local function count_refusal(m)
  if m.promised <= m.at and room(m) >= 1 then use(m, 1) end
end

-- Notes the deadline of a client that waits, in place of the first deadline where there is no room.
local function await(m, client, due)
  local place = #m.waiting + 1
  if place > WAITING then
    place = 1
    for n = 2, WAITING do
      if m.waiting[n].due < m.waiting[place].due then place = n end
    end
  end
  for n, one in ipairs(m.waiting) do
    if one.client == client then place = n end
  end
  m.waiting[place] = { client = client, due = due }
end

-- Promises a wait for `amount`, behind the pending promises to other clients; -1: it never fits. A client
-- that asks again before its time gets no later one.
local function promise(m, amount, client)
  if amount > m.limit then return -1 end
  local held, ends = leased(m)
  local alone = time_for(m, m.u + held + amount - m.limit, m.r)
  if held > 0 then alone = alone + math.max(0, ends - m.at) end
  alone = m.at + alone
  local due = alone
  if m.promised > m.at then due = math.min(m.promised + time_for(m, amount, 0), m.at + m.window) end
  for _, one in ipairs(m.waiting) do
    if one.client == client and one.due > m.at then due = one.due end
  end
  due = math.max(due, alone)
  await(m, client, due)
  m.promised = math.max(m.promised, due)
  return due - m.at
end

local function state(m)
  local used = m.u + (m.r > 0 and 1 or 0)
  local remaining = m.limit < 0 and -1 or math.max(0, m.limit - used)
  return used, remaining, m.kind == RATE and time_for(m, m.u, m.r) or 0
end

local function refund(m, amount, since, month)
  -- Draws from before this run of the store may be missing in its data.
  if since <= born and m.kind ~= HELD then return end
  if m.kind ~= RATE then
    if m.kind == HELD or m.window == month then m.u = math.max(0, m.u - amount) end
    return
  end
  local u, r = m.u, m.r
  for _, one in ipairs(m.minima) do
    if one.at > since then
      if less(one.u, one.r, u, r) then u, r = one.u, one.r end
      break
    end
  end
  if not less(u, r, amount, 0) then u, r = amount, 0 end
  m.u, m.r = minus(m.u, m.r, u, r, m.window)
  local low, low_r = MOST * 2, 0
  for n = #m.minima, 1, -1 do
    local one = m.minima[n]
    if one.at > since then one.u, one.r = minus(one.u, one.r, u, r, m.window) end
    if less(low, low_r, one.u, one.r) then one.u, one.r = low, low_r end
    low, low_r = one.u, one.r
  end
end

local function find(m, id)
  for _, lease in ipairs(m.leases) do
    if lease.id == id then return lease end
  end
end

-- Applies a node's report about its lease: the used and the released amount.
local function account(m, id, used, back)
  local lease = find(m, id)
  -- An expired lease counts as used already.
  if not lease then return end
  used = math.min(used, lease.amount)
  if used > 0 then use(m, used) end
  lease.amount = lease.amount - used
  lease.amount = lease.amount - math.min(back, lease.amount)
end

-- Leases at most `want` and at most a sixteenth of the free capacity, or nothing if that is less than
-- `least`; all leases of a meter together take at most an eighth of its limit. Renews the node's
-- lease. Returns the added amount; for an unknown lease, one more than that, negative.
local function grant(m, id, want, least, ends)
  local lease = find(m, id)
  local all = m.limit < 0 and 2 ^ 50 or m.limit
  local most = math.min(math.floor(room(m) / 16), math.floor(all / 8) - leased(m), want)
  if most < least or most <= 0 or m.kind == HELD then most = 0 end
  if lease then
    lease.ends = math.max(lease.ends, ends)
    lease.amount = lease.amount + most
    return most
  end
  if most == 0 or #m.leases >= LEASES then return -1 end
  m.leases[#m.leases + 1] = { id = id, amount = most, ends = ends }
  return -1 - most
end

local function last_until(key, ms)
  local left = redis.call('PTTL', key)
  if left < ms then redis.call('PEXPIRE', key, ms) end
end

local HUNDRED_DAYS = 8640000000

-- Rates are kept until they are unused, other meters for a hundred days after their last use.
local function keep(keys, m, name)
  if m.kind == RATE then
    save(keys[1], name, m)
    local full = (time_for(m, m.u + leased(m), m.r) + m.window) / 1000 + 60000
    last_until(keys[1], math.floor(math.min(math.max(full, 60000), HUNDRED_DAYS * 10)))
  else
    save(keys[2], name, m)
    last_until(keys[2], HUNDRED_DAYS)
  end
end

-- Spend, and long rates until nothing from before this run counts on them, must be seeded before they decide.
-- `run` is the moment of the last seed; earlier versions have the beginning of the run there. What was open
-- when the run began is in the ledger only later, which is why seeds are repeated. Spend also when the month of a
-- request does not follow its own: a seed moves it to that month.
local function is_unseeded(m, now)
  if m.astray then return true end
  if born == 0 then return false end
  if is_long(m.kind, m.window) then
    if now - born >= m.window then return false end
  elseif m.kind ~= SPEND or m.limit < 0 then
    return false
  end
  if m.run < born then return true end
  local age = m.run - born
  return age < SEED_LAST and now - born > 2 * math.max(age, SEED_FIRST)
end

-- Loads the meters of all draws, each once.
local function meters(keys, draws, now)
  local known = {}
  for _, d in ipairs(draws) do
    local id = d.kind .. d.name
    if not known[id] then
      local key = d.kind == RATE and keys[1] or keys[2]
      known[id] = { m = meter(key, d.kind, d.name, d.limit, d.window, now), name = d.name, sum = 0 }
    end
    d.at = known[id]
    d.at.sum = d.at.sum + d.amount
  end
  return known
end

local function read_draws(args, from)
  local draws = {}
  for at = from, #args, 11 do
    draws[#draws + 1] = {
      kind = tonumber(args[at]), name = args[at + 1],
      limit = tonumber(args[at + 2]), window = tonumber(args[at + 3]),
      amount = tonumber(args[at + 4]), set = math.abs(tonumber(args[at + 5])),
      counts = tonumber(args[at + 5]) > 0,
      lease = args[at + 6], back = tonumber(args[at + 7]),
      want = tonumber(args[at + 8]), least = tonumber(args[at + 9]),
      number = tonumber(args[at + 10]),
    }
  end
  return draws
end

-- For each draw: the remedy (-3 it fits, -2 wait for a release, -1 none, -4 ask for less, -5 wait for
-- settlements, else the wait), used, remaining, until full, leased.
local function answer(verdict, now, draws)
  local reply = { verdict, now }
  for _, d in ipairs(draws) do
    local used, remaining, full = state(d.at.m)
    for _, value in ipairs({ d.helps or -3, used, remaining, full, d.granted or 0 }) do
      reply[#reply + 1] = value
    end
  end
  return reply
end

local function helps(d, client)
  local m, sum = d.at.m, d.at.sum
  if fits_into(m, sum) then return -3 end
  if m.kind == RATE then
    local wait = promise(m, sum, client)
    return wait < 0 and -4 or wait
  end
  if m.kind == HELD then return sum <= m.limit and -2 or -4 end
  return m.u - reserved(m) + sum <= m.limit and -5 or -1
end

-- KEYS: rates, spend, this request. ARGV: lease in ms, durable, how long to remember the request in
-- ms, the client, then eleven per draw.
-- Verdicts: 1 admitted, 0 refused, 2 known already, 3 not seeded.
local function reserve(keys, args)
  local now = clock()
  begin(args[2] == '1', now)
  local draws, client = read_draws(args, 5), tonumber(args[4])
  local known = meters(keys, draws, now)
  if redis.call('EXISTS', keys[3]) == 1 then return answer(2, now, draws) end
  local fits = true
  for _, d in ipairs(draws) do
    if d.back > 0 then account(d.at.m, d.lease, 0, d.back) end
  end
  for _, d in ipairs(draws) do
    if is_unseeded(d.at.m, now) then return answer(3, now, draws) end
  end
  for _, one in pairs(known) do fits = fits and fits_into(one.m, one.sum) end
  if fits then
    for _, d in ipairs(draws) do
      use(d.at.m, d.amount)
      if d.kind == SPEND then hold(d.at.m, d.lease, d.amount, d.number, now) end
    end
    local ends = now + tonumber(args[1]) * 1000
    for _, d in ipairs(draws) do d.granted = grant(d.at.m, d.lease, d.want, d.least, ends) end
    redis.call('SET', keys[3], '1', 'PX', args[3])
  else
    -- A refusal for the lack of money counts nowhere, and one by a rate only in the set of that rate.
    local refusing, rates = {}, true
    for _, d in ipairs(draws) do
      if not fits_into(d.at.m, d.at.sum) then
        refusing[d.set] = true
        rates = rates and d.kind == RATE
      end
    end
    for _, d in ipairs(draws) do
      if d.counts and rates and refusing[d.set] then count_refusal(d.at.m) end
    end
    for _, d in ipairs(draws) do d.helps = helps(d, client) end
  end
  for _, one in pairs(known) do keep(keys, one.m, one.name) end
  return answer(fits and 1 or 0, now, draws)
end

-- KEYS: rates, spend. ARGV: durable, then eleven per draw.
local function look(keys, args)
  local now = clock()
  local began = born
  begin(args[1] == '1', now)
  local draws = read_draws(args, 2)
  meters(keys, draws, now)
  local reply = answer(1, now, draws)
  -- A replica can also be read: its run begins with the first decision.
  born = began
  return reply
end

-- KEYS: rates, spend, this node. ARGV: lease in ms, durable, number of this batch, then fifteen per
-- change: kind, name, limit, window, refund, since, owe, lease, used, back, want, least, month of
-- the refund, and for spend the node's open reservations in this month with the number of that report. The
-- reply: verdict (1 applied, 2 applied before), now, and for each change: leased,
-- used, remaining, until full.
local function adjust(keys, args)
  local now = clock()
  begin(args[2] == '1', now)
  local number = tonumber(args[3])
  local last = tonumber(redis.call('GET', keys[3]) or '0')
  if number <= last then return { 2, now } end
  local reply, ends = { 1, now }, now + tonumber(args[1]) * 1000
  for at = 4, #args, 15 do
    local kind, name = tonumber(args[at]), args[at + 1]
    local limit, window = tonumber(args[at + 2]), tonumber(args[at + 3])
    local m = meter(kind == RATE and keys[1] or keys[2], kind, name, limit, window, now)
    account(m, args[at + 7], tonumber(args[at + 8]), tonumber(args[at + 9]))
    local back, owed = tonumber(args[at + 4]), tonumber(args[at + 6])
    if back > 0 then refund(m, back, tonumber(args[at + 5]), tonumber(args[at + 12])) end
    if owed > 0 then use(m, owed) end
    if kind == SPEND and window == m.window then
      report(m, args[at + 7], tonumber(args[at + 13]), tonumber(args[at + 14]), now)
    end
    local granted = -1
    if not is_unseeded(m, now) then
      granted = grant(m, args[at + 7], tonumber(args[at + 10]), tonumber(args[at + 11]), ends)
    end
    keep(keys, m, name)
    local used, remaining, full = state(m)
    for _, value in ipairs({ granted, used, remaining, full }) do reply[#reply + 1] = value end
  end
  redis.call('SET', keys[3], string.format('%.0f', number), 'PX', 86400000)
  return reply
end

-- KEYS: rates, spend. ARGV: durable, kind, name, limit, window, at least.
local function seed(keys, args)
  local now = clock()
  begin(args[1] == '1', now)
  local kind, window, least = tonumber(args[2]), tonumber(args[5]), tonumber(args[6])
  local m = meter(kind == RATE and keys[1] or keys[2], kind, args[3], tonumber(args[4]), window, now)
  if m.astray then begin_month(m, window) end
  if kind == SPEND and m.window == window then
    m.u = math.max(m.u, least)
  elseif is_long(kind, window) and m.u < least then
    note(m)
    m.u, m.r = math.min(least, MOST), 0
  end
  m.run = now
  keep(keys, m, args[3])
  return { 1, now }
end

redis.register_function('@NAME@_reserve', reserve)
redis.register_function({ function_name = '@NAME@_look', callback = look, flags = { 'no-writes' } })
redis.register_function('@NAME@_adjust', adjust)
redis.register_function('@NAME@_seed', seed)
