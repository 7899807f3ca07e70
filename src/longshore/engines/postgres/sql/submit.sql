-- submit: store segments with their spans. $1 is the clock.
select longshore.submit(
    $1, $2::text::text[], $3::text::text[], $4::text::text[], $5::text::smallint[],
    $6::text::integer[], $7::text::bigint[], $8::text::integer[], $9::text::integer[],
    $10::text::integer[], $11, $12::text::text[], $13::text::text[],
    $14::text::integer[], $15::text::smallint[], $16::text::smallint[],
    $17::text::bigint[], $18::text::bigint[], $19::text::text[], $20::text::text[],
    $21::text::text[], $22, $23::text::integer[], $24::text::text[], $25::text::text[],
    $26, $27)
