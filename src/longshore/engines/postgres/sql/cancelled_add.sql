-- cancelled_add: jobs that waited are cancelled now. segment, lo, hi, size, mask, run_at, rank,
-- delivery, attempt, failures, crashes, lapses, when each was started last, now, reason
insert into longshore.finished
    (segment, lo, hi, size, mask, state, run_at, rank, delivery, attempt, failures, crashes,
     lapses, finished_at, started, finished, reason)
values ($1, $2, $3, $4, $5, 'cancelled', $6, $7, $8, $9, $10, $11, $12, $14, $13,
        array_fill($14::bigint, array[$4::smallint::integer]), $15)
