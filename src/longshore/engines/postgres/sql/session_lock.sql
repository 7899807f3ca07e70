-- session_lock: wait until no call of this session is under way. token
select 1 from longshore.session where token = $1 for no key update
