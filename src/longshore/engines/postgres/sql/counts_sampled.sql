-- counts_sampled: about how many jobs wait, by queue and state, from so many pages of each table.
-- The same pages each time, so that an estimate moves with what it is of. most pages
with share as materialized (
    select t.state,
           least(100.0, 100.0 * $1::bigint / greatest(
               pg_relation_size(t.name) / current_setting('block_size')::bigint, 1)) as percent
      from (values ('ready', 'longshore.ready'::regclass),
                   ('scheduled', 'longshore.scheduled'::regclass),
                   ('parked', 'longshore.parked'::regclass)) as t (state, name)
), found as (
    select 'ready' as state, r.queue, sum(r.size) as jobs from longshore.ready r
           tablesample system ((select percent from share where state = 'ready'))
           repeatable (1) group by r.queue
    union all
    select 'scheduled', r.queue, sum(r.size) from longshore.scheduled r
           tablesample system ((select percent from share where state = 'scheduled'))
           repeatable (1) group by r.queue
    union all
    select 'parked', r.queue, count(*) from longshore.parked r
           tablesample system ((select percent from share where state = 'parked'))
           repeatable (1) group by r.queue
)
select f.queue, f.state, (f.jobs * 100 / s.percent)::bigint as jobs
  from found f join share s using (state)
