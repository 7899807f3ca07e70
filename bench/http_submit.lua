-- What wrk sends for bench/http_submit.py: jobs with a key that nobody has used, or batches.
-- The first argument makes the keys of one run its own, the second is the size of a batch.

local number, name, batch = 0, "", 0

function init(args)
   name = args[1]
   batch = tonumber(args[2]) or 0
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
end

local function job(n)
   return '{"type":"noop","queue":"bench","payload":{"user":' .. n .. ',"action":"welcome"}}'
end

function request()
   number = number + 1
   if batch > 0 then
      local jobs = {}
      for n = 1, batch do jobs[n] = job(n) end
      return wrk.format(nil, "/v1/jobs:batch", nil, '{"jobs":[' .. table.concat(jobs, ",") .. "]}")
   end
   wrk.headers["Idempotency-Key"] = name .. "-" .. number
   return wrk.format(nil, "/v1/jobs", nil, job(number))
end
