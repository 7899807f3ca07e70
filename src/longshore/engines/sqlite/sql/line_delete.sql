-- line_delete: forget lines that have no jobs.
-- :names  JSON array of [queue, tenant, key]
delete from longshore_line where (queue, tenant, key) in (
    select value ->> 0, value ->> 1, value ->> 2 from json_each(:names))
