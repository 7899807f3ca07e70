-- claim_add: hold a span. token, number, part, segment, lo, hi, size, weight, mask, rank, run_at,
-- delivery, attempt, failures, crashes, lapses
insert into longshore.claim
    (token, number, part, segment, lo, hi, size, weight, mask, rank, run_at, delivery, attempt,
     failures, crashes, lapses)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
