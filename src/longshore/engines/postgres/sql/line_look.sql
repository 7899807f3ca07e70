-- line_look: have promote look at a line, once nobody else holds it. queue, tenant, key, clock
update longshore.line set opens_at = longshore.clock($4)
 where queue = $1 and tenant = $2 and key = $3 and dead is null
