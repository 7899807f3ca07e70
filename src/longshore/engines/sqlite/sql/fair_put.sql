-- fair_put: how far some tenants of a fair queue are.
-- :queue :times  JSON object, by tenant
insert into longshore_fair (queue, tenant, vtime)
select :queue, key, value from json_each(:times) where true
    on conflict (queue, tenant) do update set vtime = excluded.vtime
