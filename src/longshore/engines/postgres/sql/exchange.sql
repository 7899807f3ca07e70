-- exchange: settle what finished and claim what is next, in one call.
select * from longshore.exchange(
    $1, $2, $3, $4, $5::text::bigint[], $6, $7, $8, $9, $10, $11::text::bigint[],
    $12::text::smallint[], $13::text::bytea[], $14::text::smallint[],
    $15::text::bigint[], $16::text::smallint[], $17::text::smallint[],
    $18::text::bytea[], $19::text::bigint[], $20::text::integer[], $21::text::integer[],
    $22::text::integer[], $23::text::integer[], $24::text::integer[],
    $25::text::integer[], $26::text::integer[], $27::text::bigint[],
    $28::text::bigint[], $29, $30::text::bigint[], $31::text::integer[],
    $32::text::smallint[], $33::text::bigint[], $34::text::bigint[],
    $35::text::bigint[], $36::text::bigint[], $37, $38::text::text[], $39::text::text[],
    $40::text::text[], $41::text::bigint[], $42, $43, $44, $45)
