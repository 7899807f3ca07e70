-- purged_add: a job that succeeded in a span which is still claimed is deleted: its holder's
-- journal says so in an entry below 0. token, handle, delivery, clock
insert into longshore.journal (token, entry, at, handles, deliveries, kinds, started, finished)
select $1, least(min(j.entry), 0) - 1, longshore.clock($4), array[$2::bigint],
       array[$3::integer], array[3::smallint], array[null::bigint], array[null::bigint]
  from longshore.journal j where j.token = $1
