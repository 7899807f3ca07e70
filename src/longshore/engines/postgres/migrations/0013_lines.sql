-- Nothing yet.
-- longshore: works-with 0012
select 1;
