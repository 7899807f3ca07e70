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
