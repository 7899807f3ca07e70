-- line_put: note how lines stand.
-- :lines  JSON array of [queue, tenant, key, inside, tail, last in hex, dead,
--         when it opens]
insert into longshore_line (queue, tenant, key, inside, tail, last, dead, opens_at)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
       value -> 6, value ->> 7
  from json_each(:lines) where true
    on conflict (queue, tenant, key) do update
   set inside = excluded.inside, tail = excluded.tail, last = excluded.last,
       dead = excluded.dead, opens_at = excluded.opens_at
