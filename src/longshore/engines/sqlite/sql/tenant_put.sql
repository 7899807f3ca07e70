-- tenant_put: store a tenant, or replace its definition.
-- :name :definition :created_at
insert into longshore_tenant (name, definition, created_at)
values (:name, :definition, :created_at)
    on conflict (name) do update set definition = excluded.definition
