-- pruned_add: remember how many jobs were pruned of each queue. In order, so that two who do it
-- cannot wait for each other. queues, jobs
insert into longshore.total as t (name, number)
select 'pruned/' || x.queue, x.jobs
  from unnest($1::text[], $2::bigint[]) as x (queue, jobs)
 order by x.queue
    on conflict (name) do update set number = t.number + excluded.number
