-- pause: stop handing out.
-- :queue :type
insert into longshore_pause (queue, type) values (:queue, :type) on conflict do nothing
