-- webhook_add: store an endpoint, unless there is one. id, tenant, when, definition
insert into longshore.webhook (id, tenant, created_at, definition) values ($1, $2, $3, $4)
    on conflict do nothing returning id
