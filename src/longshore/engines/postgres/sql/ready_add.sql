-- ready_add: jobs are ready again. segment, lo, hi, size, mask, run_at, rank, delivery,
-- attempt, failures, crashes, lapses, whether they were replayed
insert into longshore.ready
    (queue, type, rank, segment, lo, hi, size, weight, mask, run_at, delivery, attempt,
     failures, crashes, lapses, is_replayed)
select s.queue, s.type, $7, s.segment, $2, $3, $4, s.weight, $5, $6, $8, $9, $10, $11, $12, $13
  from longshore.segment s where s.segment = $1
