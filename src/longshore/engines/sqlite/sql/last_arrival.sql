-- last_arrival: the newest job and when it arrived: ranks never run behind that, whatever
-- clocks do. And what holds for queues that have an order of their own, as one JSON text.
select coalesce(j.seq, 0), coalesce(j.created_at, 0),
       (select json_group_object(f.queue, json(f.settings)) from longshore_flow f
         where f.settings ->> 'order' is not null)
  from (select 1) left join (
       select seq, created_at from longshore_job order by seq desc limit 1) j
