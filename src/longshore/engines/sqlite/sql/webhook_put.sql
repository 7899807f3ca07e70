-- webhook_put: store an endpoint, or replace its definition.
-- :id :tenant :created_at :definition
insert into longshore_webhook (id, tenant, created_at, definition)
values (:id, :tenant, :created_at, :definition)
    on conflict (id) do update set definition = excluded.definition
