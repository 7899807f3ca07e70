-- submit_keyed: store jobs that have keys, if all may come in. $5 is the clock.
select longshore.submit_keyed(
    $1, $2, $3, $4, $5, $6, $7, $8, $9::text::smallint[], $10::text::integer[],
    $11::text::bigint[], $12::text::integer[], $13::text::integer[],
    $14::text::integer[], $15, $16::text::text[], $17::text::integer[],
    $18::text::smallint[], $19::text::smallint[], $20::text::bigint[],
    $21::text::bigint[], $22, $23, $24, $25, $26, $27)
