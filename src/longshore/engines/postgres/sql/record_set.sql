-- record_set: replace the body of a record that is held.
-- when, kind, name, tenant, body, due, whether that stays as it is
update longshore.record
   set version = version + 1, body = $5, changed_at = $1,
       due = case when $7::boolean then due else $6 end
 where kind = $2 and name = $3 and tenant = $4 returning *
