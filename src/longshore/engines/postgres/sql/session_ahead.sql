-- session_ahead: whether a lease ends further ahead than its length: the clock was set back.
-- clock
select exists (select from longshore.session s, longshore.clock($1) as now
                where s.expires_at > now + s.lease) as is_ahead
