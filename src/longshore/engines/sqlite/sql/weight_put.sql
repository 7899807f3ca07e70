-- weight_put: the share of a tenant in fair queues.
-- :tenant :weight
insert into longshore_weight (tenant, weight) values (:tenant, :weight)
    on conflict (tenant) do update set weight = excluded.weight
