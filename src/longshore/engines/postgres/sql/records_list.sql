-- records_list: a page of records, each with what is known of a queue's rate or of a circuit
-- breaker. One row at least. clock, and the arguments of longshore.list_records
select c.now, r.*,
       case when r.kind = 'queue' then (
            select f.empty_at from longshore.flow f where f.queue = r.name) end as empty_at,
       case when r.kind = 'breaker' then (
            select b.standing from longshore.breaker b where b.type = r.name) end as standing
  from (select longshore.clock($1) as now) c
  left join longshore.list_records($2, $3, $4, $5, $6, $7, $8, $9, $10) with ordinality r on true
 order by r.ordinality
