-- firing_add: take due times; those that were not taken before. tenant, name, dues, ids
insert into longshore.firing (tenant, name, due, id)
select $1, $2, t.due, t.id from unnest($3::bigint[], $4::uuid[]) as t (due, id)
on conflict do nothing
returning due
