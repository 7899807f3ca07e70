-- Rates per ordering key. Code that does not look at lines that open by themselves has to leave.

-- When the next one is let in, where nothing but the rate of its key keeps it.
alter table longshore_line add column opens_at integer;

create index longshore_line_opens on longshore_line (opens_at, queue, tenant, key)
 where opens_at is not null;
