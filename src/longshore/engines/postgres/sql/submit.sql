-- Submit: jobs come in.

-- admit: which jobs may come in, and the times they have.
-- clock, ids, tenants, keys, fingerprints, unique keys, due times, delays
select id, verdict, created_at, run_at, clock from longshore.admit($1, $2, $3, $4, $5, $6, $7, $8)

-- arrange: jobs of these segments became ready: those of fair queues go into lanes. segments
select longshore.arrange($1)

-- submit: store segments with their spans. $1 is the clock, $2 the arrival if it is known.
select longshore.submit(
    $1, $2, $3::text::text[], $4::text::text[], $5::text::text[], $6::text::smallint[],
    $7::text::integer[], $8::text::bigint[], $9::text::integer[], $10::text::integer[],
    $11::text::integer[], $12, $13::text::text[], $14::text::text[],
    $15::text::integer[], $16::text::smallint[], $17::text::smallint[],
    $18::text::bigint[], $19::text::bigint[], $20::text::text[], $21::text::text[],
    $22::text::text[], $23, $24::text::integer[], $25::text::text[], $26::text::text[],
    $27, $28)

-- submit_keyed: store jobs of which some have keys, if all may come in. $10 is the clock.
select longshore.submit_keyed(
    $1::text::text[], $2::text::text[], $3::text::bytea[], $4::text::uuid[],
    $5::text::bigint[], $6::text::bigint[],
    $7::text::text[], $8::text::text[], $9::text::uuid[], $10, $11::text::text[],
    $12::text::text[], $13::text::text[], $14::text::smallint[], $15::text::integer[],
    $16::text::bigint[], $17::text::integer[], $18::text::integer[],
    $19::text::integer[], $20, $21::text::text[], $22::text::text[],
    $23::text::integer[], $24::text::smallint[], $25::text::smallint[],
    $26::text::bigint[], $27::text::bigint[], $28::text::text[], $29::text::text[],
    $30::text::text[], $31, $32::text::integer[], $33::text::text[], $34::text::text[],
    $35, $36)

-- submit_lined: store jobs of which some have ordering keys, and of which some may have other
-- keys, if all may come in. As submit_keyed; $37 and on are those with ordering keys: ids, when
-- each is to run or null, delays.
select t.at
  from (select longshore.submit_keyed(
    $1::text::text[], $2::text::text[], $3::text::bytea[], $4::text::uuid[],
    $5::text::bigint[], $6::text::bigint[],
    $7::text::text[], $8::text::text[], $9::text::uuid[], $10, $11::text::text[],
    $12::text::text[], $13::text::text[], $14::text::smallint[], $15::text::integer[],
    $16::text::bigint[], $17::text::integer[], $18::text::integer[],
    $19::text::integer[], $20, $21::text::text[], $22::text::text[],
    $23::text::integer[], $24::text::smallint[], $25::text::smallint[],
    $26::text::bigint[], $27::text::bigint[], $28::text::text[], $29::text::text[],
    $30::text::text[], $31, $32::text::integer[], $33::text::text[], $34::text::text[],
    $35, $36) as at
        offset 0) t
 cross join lateral longshore.line_up_new(
       t.at[1], t.at[2], $37::text::uuid[], $38::text::bigint[], $39::text::bigint[], false)

-- submit_one: store one job without keys.
select longshore.submit_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- keys_held: which keys someone holds in an open transaction, by their places from 1.
-- tenants, kinds (once, unique, line), keys, queues (of lines)
-- Nothing is written; each key that is held is waited for a millisecond.
select longshore.keys_held($1, $2, $3, $4)

-- known: which of these jobs stand already, by their places from 1.
-- ids, tenants, keys, fingerprints
-- Reads only: someone who submits one of them right now is not waited for.
select place from longshore.recall($1, $2, $3, $4) where verdict is not null

-- depths: where no more than so many jobs may wait, how many do.
select d.queue, d.tenant, d.most, d.jobs from longshore.depths() d

-- line_up_new: new jobs with ordering keys join their lines, or wait till they are due.
-- clock, arrival, ids, when each is to run or null, delays, whether to wake who waits
select longshore.line_up_new($1, $2, $3, $4, $5, $6)

-- segment_ids: the ids of a segment's jobs, from one ordinal up to and without another.
-- segment, lo, hi
select substring(s.ids from $2::smallint * 16 + 1 for ($3::smallint - $2::smallint) * 16) as ids
  from longshore.segment s where s.segment = $1
