-- jobs_by_id: all that is known of these jobs, of those that the tenant may see.
-- ids, tenant or null
select * from longshore.look($1, $2)
