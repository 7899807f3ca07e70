-- audit_add: entries of the chain.
-- numbers, times, kinds, tenants, actors, actions, subjects, bodies, hashes
insert into longshore.audit
       (number, at, kind, tenant, actor, action, subject, body, hash)
select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
                     $7::text[], $8::bytea[], $9::bytea[])
