-- had_keys: whether there is an API key, or ever was one.
select exists (select 1 from longshore_key)
    or exists (select 1 from longshore_fact where name = 'had_keys')
