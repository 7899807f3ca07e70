-- had_keys: whether there is an API key, or ever was one.
select exists (select from longshore.key)
    or exists (select from longshore.fact where name = 'had_keys') as had_keys
