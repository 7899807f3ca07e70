-- tenant_add: store a tenant, unless there is one. name, definition, when
insert into longshore.tenant (name, definition, created_at) values ($1, $2, $3)
    on conflict do nothing returning name
