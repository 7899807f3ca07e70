-- record_add: make a record, unless there is one of the name; nothing then. Its first version is
-- the time.
-- when, kind, name, tenant, body, due, is_unique
insert into longshore.record
    (kind, name, tenant, version, body, created_at, changed_at, due, is_unique)
values ($2, $3, $4, $1, $5, $1, $1, $6, $7) on conflict do nothing returning *
