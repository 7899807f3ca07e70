-- promote: make due jobs ready; the spans that were. clock, most jobs
select queue, type, tenant, lo, hi, size, mask, ids, types, tenants, attributes
  from longshore.promote_whole($1, $2)
