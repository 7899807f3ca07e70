-- pruned_queues: how many jobs of spans that expired are of which queue, before they are forgotten.
-- segments, sizes
select s.queue, sum(x.size)::bigint as jobs
  from unnest($1::bigint[], $2::smallint[]) as x (segment, size)
  join longshore.segment s on s.segment = x.segment
 group by s.queue
