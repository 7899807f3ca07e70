-- submit: store segments with their spans. $1 is the clock, $2 the arrival if it is known.
select longshore.submit(
    $1, $2, $3::text::text[], $4::text::text[], $5::text::text[], $6::text::smallint[],
    $7::text::integer[], $8::text::bigint[], $9::text::integer[], $10::text::integer[],
    $11::text::integer[], $12, $13::text::text[], $14::text::text[],
    $15::text::integer[], $16::text::smallint[], $17::text::smallint[],
    $18::text::bigint[], $19::text::bigint[], $20::text::text[], $21::text::text[],
    $22::text::text[], $23, $24::text::integer[], $25::text::text[], $26::text::text[],
    $27, $28)
