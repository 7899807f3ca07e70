-- journal_of: what a session told of spans it still holds. token
select entry, at, handles, deliveries, kinds, started, finished from longshore.journal
 where token = $1 order by entry
