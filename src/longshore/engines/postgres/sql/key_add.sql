-- key_add: store a key, unless its id is taken.
-- id, digest, tenant, scopes, label, created_at, expires_at
insert into longshore.key (id, digest, tenant, scopes, label, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing
