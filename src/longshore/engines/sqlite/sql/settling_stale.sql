-- settling_stale: settlements whose claim is no longer this session's.
-- :token
select s.seq, s.delivery from longshore_settling s
 where not exists (
        select 1 from longshore_job j
         where j.seq = s.seq and j.token = :token and j.delivery = s.delivery
           and j.state = 'running')
