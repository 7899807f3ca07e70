-- ready_of: the ready spans of a segment, locked. segment, delivery
select r.ctid as span, r.lo, r.hi, r.mask from longshore.ready r
 where r.segment = $1 and r.delivery = $2
 order by r.hi for update
