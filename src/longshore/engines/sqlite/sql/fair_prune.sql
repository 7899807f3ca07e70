-- fair_prune: forget the tenants of a queue that are no farther than this.
-- :queue :at
delete from longshore_fair where queue = :queue and vtime <= :at
