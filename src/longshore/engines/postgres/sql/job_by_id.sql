-- job_by_id: all that is known of a job, if the tenant may see it. id, tenant or null
select j.* from longshore.locator l cross join lateral longshore.seen(l.segment, l.ordinal) j
 where l.id = $1 and ($2::text is null or j.tenant = $2)
