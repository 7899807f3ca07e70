-- jobs_by_id: all that is known of these jobs, of those that the tenant may see.
-- ids, tenant or null
select j.* from unnest($1::uuid[]) as w (id)
  join longshore.locator l on l.id = w.id
 cross join lateral longshore.seen(l.segment, l.ordinal) j
 where $2::text is null or j.tenant = $2
