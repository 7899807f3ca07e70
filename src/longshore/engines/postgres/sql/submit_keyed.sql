-- submit_keyed: store jobs that have keys, if all may come in. $5 is the clock.
select longshore.submit_keyed(
    $1, $2, $3, $4, $5, $6::text::text[], $7::text::text[], $8::text::text[],
    $9::text::smallint[], $10::text::integer[], $11::text::bigint[],
    $12::text::integer[], $13::text::integer[], $14::text::integer[], $15,
    $16::text::text[], $17::text::text[], $18::text::integer[], $19::text::smallint[],
    $20::text::smallint[], $21::text::bigint[], $22::text::bigint[], $23::text::text[],
    $24::text::text[], $25::text::text[], $26, $27, $28::text::text[],
    $29::text::text[], $30, $31)
