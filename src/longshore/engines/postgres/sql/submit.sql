-- submit: store segments with their spans. $1 is the clock.
select longshore.submit(
    $1, $2, $3, $4, $5::text::smallint[], $6::text::integer[], $7::text::bigint[],
    $8::text::integer[], $9::text::integer[], $10::text::integer[], $11,
    $12::text::text[], $13::text::integer[], $14::text::smallint[],
    $15::text::smallint[], $16::text::bigint[], $17::text::bigint[], $18, $19, $20, $21,
    $22, $23)
