-- ready_add: jobs are ready again. segment, lo, hi, size, mask, run_at, rank, delivery,
-- attempt, failures, crashes, lapses, whether they were replayed, types or null
insert into longshore.ready
    (queue, type, rank, segment, lo, hi, size, weight, mask, run_at, delivery, attempt,
     failures, crashes, lapses, is_replayed, types)
select s.queue, case when cardinality($14::text[]) = 1 then $14[1] else '' end, $7, s.segment,
       $2, $3, $4, s.weight, $5, $6, $8, $9, $10, $11, $12, $13,
       case when cardinality($14) > 1 then $14 end
  from longshore.segment s where s.segment = $1
