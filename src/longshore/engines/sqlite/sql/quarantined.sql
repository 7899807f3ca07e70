-- quarantined: what was set aside, newest first.
-- :limit
select consumer, event_id, name, job_id, reason, body, at from longshore_quarantine
 order by number desc limit :limit
