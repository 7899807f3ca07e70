-- webhook_door: who is at an endpoint, and how it went; the time. id, clock
select door, longshore.clock($2) as now from longshore.webhook where id = $1
