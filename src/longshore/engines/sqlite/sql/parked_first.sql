-- parked_first: the first job of each of these lines, as one JSON text.
-- :lines  JSON array of [queue, tenant, key]
select json_group_array(json_array(s.key, p.seq, hex(j.id), p.run_at, p.delivery, p.attempt))
  from json_each(:lines) s
 cross join longshore_parked p on p.queue = s.value ->> 0 and p.tenant = s.value ->> 1
                              and p.key = s.value ->> 2 and p.place = (
       select min(x.place) from longshore_parked x
        where x.queue = s.value ->> 0 and x.tenant = s.value ->> 1 and x.key = s.value ->> 2)
 cross join longshore_job j on j.seq = p.seq
