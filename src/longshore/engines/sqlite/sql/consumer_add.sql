-- consumer_add: remember a consumer that is new.
-- :name :now
insert into longshore_consumer (name, seen_at) values (:name, :now) on conflict do nothing
