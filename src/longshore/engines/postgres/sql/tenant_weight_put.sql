-- tenant_weight_put: let a tenant have this share of fair queues. tenant, weight
insert into longshore.tenant_weight (tenant, weight) values ($1, $2)
    on conflict (tenant) do update set weight = excluded.weight
