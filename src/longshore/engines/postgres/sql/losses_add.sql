-- losses_add: a worker vanished that held jobs. names of both facts, jobs
insert into longshore.fact (name, value) values ($1, '1'), ($2, $3::bigint::text)
    on conflict (name) do update
   set value = (longshore.fact.value::bigint + excluded.value::bigint)::text
