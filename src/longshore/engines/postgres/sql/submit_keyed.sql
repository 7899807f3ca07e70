-- submit_keyed: store jobs of which some have keys, if all may come in. $8 is the clock.
select longshore.submit_keyed(
    $1::text::text[], $2::text::text[], $3::text::bytea[], $4::text::uuid[],
    $5::text::text[], $6::text::text[], $7::text::uuid[], $8, $9::text::text[],
    $10::text::text[], $11::text::text[], $12::text::smallint[], $13::text::integer[],
    $14::text::bigint[], $15::text::integer[], $16::text::integer[],
    $17::text::integer[], $18, $19::text::text[], $20::text::text[],
    $21::text::integer[], $22::text::smallint[], $23::text::smallint[],
    $24::text::bigint[], $25::text::bigint[], $26::text::text[], $27::text::text[],
    $28::text::text[], $29, $30::text::integer[], $31::text::text[], $32::text::text[],
    $33, $34)
