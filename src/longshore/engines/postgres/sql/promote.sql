-- promote: make due jobs ready; the spans that were. clock, most jobs
-- One job of each span leads to what its jobs have of their own.
select p.queue, p.type, p.tenant, p.lo, p.hi, p.size, p.mask, p.ids, p.types, p.tenants,
       (select s.attributes::text
          from longshore.locator l join longshore.segment s on s.segment = l.segment
         where l.id = encode(substring(p.ids for 16), 'hex')::uuid) as attributes
  from longshore.promote($1, $2) p
