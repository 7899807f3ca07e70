-- lapsed: sessions whose lease ended before :before.
-- :before :limit
-- reads longshore_session_live.
select token, worker from longshore_session
 where closed_at is null and expires_at <= :before
 order by expires_at
 limit :limit
