-- lines: how lines stand, as one JSON text: the number of each, and whether any of it is parked.
-- :names  JSON array of [queue, tenant, key]
select json_group_array(json_array(s.key, l.inside, l.tail, l.last, json(l.dead), exists (
           select 1 from longshore_parked p
            where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key)))
  from json_each(:names) s
 cross join longshore_line l on l.queue = s.value ->> 0 and l.tenant = s.value ->> 1
                            and l.key = s.value ->> 2
