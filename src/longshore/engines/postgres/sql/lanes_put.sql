-- lanes_put: let all that is ready in a queue that has become fair be in lanes. queue
with sorted as (select longshore.sort_lanes($1))
update longshore.flow set sorted_by = pg_current_xact_id() where queue = $1
   and exists (select from sorted)
