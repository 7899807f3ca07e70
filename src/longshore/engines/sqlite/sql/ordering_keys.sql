-- Ordering keys: lines of jobs with an ordering key.

-- keyed: those of the jobs that have an ordering key, as one JSON text.
-- :seqs  JSON array
select json_group_array(json_array(j.seq, hex(j.id), j.queue, j.tenant, j.ordering_key))
  from json_each(:seqs) s cross join longshore_job j on j.seq = s.value
 where j.ordering_key is not null

-- line_delete: forget lines that have no jobs.
-- :names  JSON array of [queue, tenant, key]
delete from longshore_line where (queue, tenant, key) in (
    select value ->> 0, value ->> 1, value ->> 2 from json_each(:names))

-- line_get: a line as people see it.
-- :queue :tenant :key
select queue, key, tenant, inside,
       (select count(*) from longshore_parked p
         where p.queue = :queue and p.tenant = :tenant and p.key = :key), last, dead, opens_at
  from longshore_line
 where queue = :queue and tenant = :tenant and key = :key

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

-- lines: how lines stand, as one JSON text: the number of each, and whether any of it is parked.
-- :names  JSON array of [queue, tenant, key]
select json_group_array(json_array(s.key, l.inside, l.tail, l.last, json(l.dead), exists (
           select 1 from longshore_parked p
            where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key)))
  from json_each(:names) s
 cross join longshore_line l on l.queue = s.value ->> 0 and l.tenant = s.value ->> 1
                            and l.key = s.value ->> 2

-- lines_blocked: lines that dead jobs block, as people see them.
-- :tenant  null: any, :limit
-- reads longshore_line_blocked.
select queue, key, tenant, inside,
       (select count(*) from longshore_parked p
         where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key), last, dead, opens_at
  from longshore_line l indexed by longshore_line_blocked
 where dead <> '[]' and (:tenant is null or tenant = :tenant)
 order by queue, tenant, key limit :limit

-- lines_due: lines that open by now, because of their rate; the first ones first.
-- :now :limit
-- reads longshore_line_opens.
select queue, tenant, key from longshore_line indexed by longshore_line_opens
 where opens_at <= :now
 order by opens_at, queue, tenant, key limit :limit

-- lines_look: have promote look at the next lines of a queue that have jobs parked; their names.
-- :queue :tenant :key :limit :now
update longshore_line set opens_at = :now
 where queue = :queue and (tenant, key) in (
       select l.tenant, l.key from longshore_line l
        where l.queue = :queue and (l.tenant, l.key) > (:tenant, :key) and l.dead = '[]'
          and exists (select 1 from longshore_parked p
                       where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key)
        order by l.tenant, l.key limit :limit)
returning tenant, key

-- park: let jobs wait behind others of their line.
-- :jobs  JSON array of [queue, tenant, key, place, seq, run_at, delivery, attempt]
insert into longshore_parked (queue, tenant, key, place, seq, run_at, delivery, attempt)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
       value ->> 6, value ->> 7
  from json_each(:jobs)

-- parked_any: whether any job of a line is parked.
-- :queue :tenant :key
select exists (select 1 from longshore_parked
                where queue = :queue and tenant = :tenant and key = :key)

-- parked_first: the first job of each of these lines, as one JSON text.
-- :lines  JSON array of [queue, tenant, key]
select json_group_array(json_array(s.key, p.seq, hex(j.id), p.run_at, p.delivery, p.attempt))
  from json_each(:lines) s
 cross join longshore_parked p on p.queue = s.value ->> 0 and p.tenant = s.value ->> 1
                              and p.key = s.value ->> 2 and p.place = (
       select min(x.place) from longshore_parked x
        where x.queue = s.value ->> 0 and x.tenant = s.value ->> 1 and x.key = s.value ->> 2)
 cross join longshore_job j on j.seq = p.seq

-- parked_next: the first jobs of a line, as one JSON text.
-- :queue :tenant :key :limit :number  which comes first in the answer
select json_group_array(json_array(:number, p.seq, hex(j.id), p.run_at, p.delivery, p.attempt))
  from (select * from longshore_parked
         where queue = :queue and tenant = :tenant and key = :key
         order by place limit :limit) p
 cross join longshore_job j on j.seq = p.seq

-- let_in: jobs of lines may be claimed.
-- :jobs  JSON array of [seq, run_at, delivery, attempt]
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses)
select j.queue, j.type, j.rank, j.seq, length(j.payload), s.value ->> 1, s.value ->> 2,
       s.value ->> 3, 0, 0, 0
  from json_each(:jobs) s cross join longshore_job j on j.seq = s.value ->> 0
