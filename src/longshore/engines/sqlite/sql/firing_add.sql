-- firing_add: take a due time; no row when it was fired before.
-- :tenant :name :due :id
insert into longshore_firing (tenant, name, due, id) values (:tenant, :name, :due, :id)
on conflict do nothing
