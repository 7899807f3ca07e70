-- Nobody else's functions and operators run inside those of Longshore.
-- longshore: works-with 0021
--
-- A name without a schema is looked up along the search_path of whoever calls, and an exact match
-- in `public` beats a general one in pg_catalog: whoever may create there could have an
-- `unnest(bigint[])` of their own run with the rights of a worker. So functions in PL/pgSQL name
-- the path they are run with. Functions in SQL would no longer be inlined with that; they are
-- parsed here once and for all instead, and look up nothing when they run.

set local search_path = pg_catalog, pg_temp;

do $$
declare
    it record;
begin
    for it in
        select p.oid, p.prosrc, l.lanname, p.oid::regprocedure as name
          from pg_proc p join pg_language l on l.oid = p.prolang
         where p.pronamespace = 'longshore'::regnamespace
         order by p.oid
    loop
        if it.lanname = 'plpgsql' then
            execute format('alter function %s set search_path = pg_catalog, pg_temp', it.name);
        else
            execute replace(
                rtrim(pg_get_functiondef(it.oid), E' \n'),
                'AS $function$' || it.prosrc || '$function$',
                'begin atomic ' || rtrim(it.prosrc, E'; \n') || '; end');
        end if;
    end loop;
end
$$;
