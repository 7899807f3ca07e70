-- migration_behind: how many live sessions are of code below a level, whether the announcement
-- that keeps more of them out holds long enough, and whether someone tried just now.
-- $1 clock, $2 level, $3 number, $4 checksum
select (select count(*) from longshore.session s left join longshore.session_level l using (token)
         where s.expires_at > coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
           and coalesce(l.level, 0) < $2) as sessions,
       exists (select from longshore.migration m
                where m.number = $3 and m.checksum = $4
                  and m.announced_until > now() + interval '15 minutes') as is_announced,
       exists (select from longshore.migration m
                where m.number = $3 and m.tried_at > now() - interval '1 second') as is_tried
