-- settle: carry out a plan; the caller holds the session's row.
select longshore.settle(
    $1, $2, $3, $4::text::bigint[], $5::text::smallint[], $6::text::bytea[],
    $7::text::smallint[], $8::text::bigint[], $9::text::smallint[],
    $10::text::smallint[], $11::text::bytea[], $12::text::bigint[],
    $13::text::integer[], $14::text::integer[], $15::text::integer[],
    $16::text::integer[], $17::text::integer[], $18::text::integer[],
    $19::text::integer[], $20::text::bigint[], $21::text::bigint[], $22,
    $23::text::bigint[], $24::text::integer[], $25::text::smallint[],
    $26::text::bigint[], $27::text::bigint[], $28::text::bigint[], $29::text::bigint[],
    $30, $31::text::text[], $32::text::text[], $33::text::text[], $34::text::bigint[],
    $35, $36)
