-- Jobs: what people see of jobs, and change.

-- attempts: a job's deliveries that ended otherwise than in success, oldest first.
-- segment, ordinal
select delivery, attempt, outcome, worker, started_at, finished_at, failure::text as failure
  from longshore.attempt where segment = $1 and ordinal = $2 order by delivery

-- job_find: some jobs of a listing, newest first, and where the next look begins.
-- state, queue, type, tenant, tag, each or null; handle to begin below; most jobs, most spans
select beyond, (job).*
  from longshore.find($1, $2, $3, $4, $5, $6, $7, $8)

-- jobs_by_id: all that is known of these jobs, of those that the tenant may see.
-- ids, tenant or null
select * from longshore.look($1, $2)

-- hold: keep these jobs where they are until the transaction ends; what was locked for it. ids
select * from longshore.hold($1)

-- cancelled_add: jobs that waited are cancelled now. segment, lo, hi, size, mask, run_at, rank,
-- delivery, attempt, failures, crashes, lapses, when each was started last, now, reason
insert into longshore.finished
    (segment, lo, hi, size, mask, state, run_at, rank, delivery, attempt, failures, crashes,
     lapses, finished_at, started, finished, reason)
values ($1, $2, $3, $4, $5, 'cancelled', $6, $7, $8, $9, $10, $11, $12, $14, $13,
        array_fill($14::bigint, array[$4::smallint::integer]), $15)

-- ready_add: jobs are ready again. segment, lo, hi, size, mask, run_at, rank, delivery,
-- attempt, failures, crashes, lapses, whether they were replayed, types or null
insert into longshore.ready
    (queue, type, rank, segment, lo, hi, size, weight, mask, run_at, delivery, attempt,
     failures, crashes, lapses, is_replayed, types)
select s.queue, case when cardinality($14::text[]) = 1 then $14[1] else '' end, $7, s.segment,
       $2, $3, $4, s.weight, $5, $6, $8, $9, $10, $11, $12, $13,
       case when cardinality($14) > 1 then $14 end
  from longshore.segment s where s.segment = $1

-- ready_of: the ready spans of a segment, locked. segment, delivery
select r.ctid as span, r.lo, r.hi, r.mask from longshore.ready r
 where r.segment = $1 and r.delivery = $2
 order by r.hi for update

-- take_finished: take jobs out of a locked finished span. span, ordinals
select longshore.take_finished($1, $2)

-- take_parked: these are no longer parked; their lines are held. places of their rows
delete from longshore.parked where ctid = any ($1)

-- take_ready: leave only these jobs in a locked ready span; nothing is left when the mask is
-- null. span, mask, size
with gone as (delete from longshore.ready where ctid = $1 and $2::bytea is null)
update longshore.ready set mask = $2, size = $3 where ctid = $1 and $2 is not null

-- take_scheduled: leave only these jobs in a locked scheduled span; nothing is left when the
-- mask is null. span, mask, size
with gone as (delete from longshore.scheduled where ctid = $1 and $2::bytea is null)
update longshore.scheduled set mask = $2, size = $3 where ctid = $1 and $2 is not null

-- tally_add: so many jobs more are finished. queues, tenants, states, jobs
insert into longshore.tally values ($1, $2, $3, $4)

-- purged_add: a job that succeeded in a span which is still claimed is deleted: its holder's
-- journal says so in an entry below 0. token, handle, delivery, clock
insert into longshore.journal (token, entry, at, handles, deliveries, kinds, started, finished)
select $1, least(min(j.entry), 0) - 1, longshore.clock($4), array[$2::bigint],
       array[$3::integer], array[3::smallint], array[null::bigint], array[null::bigint]
  from longshore.journal j where j.token = $1

-- progress_forget: a job that begins anew has not said anything. segment, ordinal
delete from longshore.progress where segment = $1 and ordinal = $2

-- erase: overwrite what a segment has of a job, but for the name of its line: it may have yet to
-- leave it, and jobs that are claimed together are asked for it through the first of them.
-- segment, ordinal
update longshore.segment s
   set payloads = overlay(s.payloads placing
           convert_to(repeat(' ', s.bounds[$2 + 2] - s.bounds[$2 + 1]), 'UTF8')
           from s.bounds[$2 + 1] + 1),
       keys = s.keys - $2::integer::text,
       attributes = case
           when s.attributes -> $2::integer::text ? 'line'
           then s.attributes || jsonb_build_object($2::integer::text, jsonb_build_object(
                    'line', s.attributes -> $2::integer::text -> 'line'))
           else s.attributes - $2::integer::text end
 where s.segment = $1

-- forget: remove all that is left of jobs whose spans are gone. segments, los, his, masks
select longshore.forget($1, $2, $3, $4)
