-- session_await: wait until no completion of this session is under way. token
select 1 from longshore.session where token = $1 for update
