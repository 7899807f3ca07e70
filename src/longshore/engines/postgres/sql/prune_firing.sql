-- prune_firing: forget due times that lie too far back to be fired again. last moment, limit
-- reads firing_age.
delete from longshore.firing f where f.ctid = any (array(
    select x.ctid from longshore.firing x where x.due <= $1
     order by x.due limit $2 for update skip locked))
returning 1
