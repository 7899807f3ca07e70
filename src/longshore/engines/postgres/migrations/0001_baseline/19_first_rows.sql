-- What a new store begins with.

-- Its first era.
select longshore.current_era();

-- The tenant of jobs that name none is always there.
insert into longshore.record (kind, name, body, created_at, changed_at, is_unique)
values ('tenant', 'default', '{"name":"default"}', 0, 0, true);
