-- counts_settled: jobs by queue and state that need no look at what waits: how many, not started.
select queue, state, sum(jobs), 0 from longshore_count
 group by queue, state having sum(jobs) > 0
union all
select substr(name, 8), 'pruned', number, 0 from longshore_total
 where name >= 'pruned/' and name < 'pruned0'
union all
select j.queue, 'running', count(*), sum(h.started_at is null)
  from longshore_held h cross join longshore_job j on j.seq = h.seq group by j.queue
